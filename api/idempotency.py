"""Idempotency-Key of a POST. It is stored in the transaction of the change, so the change happens at most once."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone
from rest_framework.exceptions import ValidationError
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from access.authentication import author_of
from api.errors import Unprocessable
from api.models import StoredAnswer

HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"
KEPT = timedelta(hours=24)
LONGEST = 255
PATTERN = "[!-~]"
_KEY = re.compile(f"{PATTERN}{{1,{LONGEST}}}")


@dataclass(frozen=True, slots=True)
class Claim:
    row: StoredAnswer

    def keep(self, answer: Response, secrets: Collection[str]) -> None:
        """Store the response. Fields in `secrets` are shown only once, so they are stored as null."""
        self.row.status = answer.status_code
        self.row.headers = {name: value for name, value in answer.headers.items() if name != "Content-Type"}
        self.row.body = {name: None if name in secrets else value for name, value in _plain(answer.data).items()}
        self.row.save()


def key_of(request: Request) -> str | None:
    key = request.headers.get(HEADER)
    if key is not None and not _KEY.fullmatch(key):
        message = f"{HEADER} must be 1 to {LONGEST} visible ASCII characters, such as a UUID"
        raise ValidationError({HEADER: [message]}, "idempotency-key")
    return key


def claim(request: Request, key: str) -> Claim | Response:
    """Claim the key, or return the response of the earlier request with it. Waits while that request is running."""
    asked, author = _hash(request), author_of(request)
    StoredAnswer.objects.filter(created__lt=_oldest()).delete()
    try:
        # The insert waits on the unique index until the other request's transaction ends.
        with transaction.atomic():
            return Claim(StoredAnswer.objects.create(author=author, key=key, request_hash=asked))
    except IntegrityError:
        return _again(StoredAnswer.objects.get(author=author, key=key), asked)


def kept(request: Request, key: str) -> Response | None:
    """The response of an earlier request with this key, if it has ended."""
    row = StoredAnswer.objects.filter(author=author_of(request), key=key, created__gte=_oldest()).first()
    return None if row is None else _again(row, _hash(request))


def _oldest() -> datetime:
    return timezone.now() - KEPT


def _again(row: StoredAnswer, asked: str) -> Response:
    if row.request_hash != asked:
        message = f"{HEADER} was used for another request; repeat that request unchanged, or use a new key."
        raise Unprocessable(message, "idempotency-key-reused")
    return Response(row.body, status=row.status, headers={**row.headers, REPLAYED: "true"})


def _hash(request: Request) -> str:
    asked = [request.method, request.get_full_path(), request.data]
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def _plain(data: Mapping[str, Any]) -> dict[str, Any]:
    """The data as it will be in JSON: times as text."""
    plain: dict[str, Any] = json.loads(JSONRenderer().render(data))
    return plain
