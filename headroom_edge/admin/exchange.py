"""One request and its response, over verified TLS. Follows no redirect: it would take the token elsewhere."""

from __future__ import annotations

import json
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.message import Message
from http.client import HTTPException
from typing import IO, Any, Final
from urllib.parse import urlsplit

from headroom_edge.admin.errors import AdminError

MOST_BYTES: Final = 64 * 1_048_576  # of a response
CHUNK: Final = 65_536
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class LostError(Exception):
    """The exchange broke off, so whether the request was carried out is not known."""


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes

    def data(self) -> dict[str, Any]:
        """The JSON object, or nothing if it is none."""
        try:
            found = json.loads(self.body)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> None:
        return None


@dataclass(frozen=True, slots=True)
class Server:
    url: str  # without a slash at the end
    token: str = field(repr=False)

    @classmethod
    def at(cls, url: str, token: str, *, allow_http: bool = False) -> Server:
        if not url:
            raise AdminError("No URL was given; set HEADROOM_URL, or use --url https://….")
        parts = _parts(url)
        if parts.scheme not in ("https", "http") or not parts.hostname:
            raise AdminError(f"{url} is not a URL of a Headroom; write it like https://headroom.example.com.")
        if parts.username or parts.query or parts.fragment:
            raise AdminError("The URL has a user, a query or a fragment; give only https://host and perhaps a path.")
        if parts.scheme == "http" and parts.hostname not in LOOPBACK and not allow_http:
            raise AdminError("http:// would send the token in clear text; use https://, or add --allow-http.")
        if not token:
            raise AdminError("No token was given; set HEADROOM_TOKEN to one from `manage.py token create`.")
        if not (token.isascii() and token.isprintable()):
            raise AdminError("HEADROOM_TOKEN has characters that no token has; copy it again, without line breaks.")
        return cls(url.rstrip("/"), token)

    def ask(
        self, method: str, path: str, body: Mapping[str, Any] | None, headers: Mapping[str, str], timeout_s: float
    ) -> Response:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, dict(headers), method=method)  # noqa: S310 # see `at`
        request.add_header("Authorization", f"Bearer {self.token}")
        request.add_header("Accept", "*/*")
        if data is not None:
            request.add_header("Content-Type", "application/json")
        try:
            end = time.monotonic() + timeout_s
            try:
                answer = _opener().open(request, timeout=timeout_s)
            except urllib.error.HTTPError as error:  # a response too
                answer = error
            with answer:
                return Response(answer.status, _headers(answer), _body(answer, end))
        except (urllib.error.URLError, OSError, HTTPException) as error:
            raise _failure(self.url, error) from None


def _parts(url: str) -> Any:
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises if it is no number
    except ValueError as error:
        raise AdminError(f"{url} is not a URL: {error}; write it like https://headroom.example.com.") from None
    return parts


def _opener() -> urllib.request.OpenerDirector:
    secure = urllib.request.HTTPSHandler(context=ssl.create_default_context())
    return urllib.request.build_opener(_NoRedirect, secure)


def _headers(answer: Any) -> dict[str, str]:
    return {name.lower(): value for name, value in answer.headers.items()}


def _body(answer: Any, end: float) -> bytes:
    """A socket's time-out is for one read; `end` is for all of them."""
    found = bytearray()
    while chunk := answer.read1(CHUNK):
        found += chunk
        if len(found) > MOST_BYTES:
            raise AdminError(f"The response has more than {MOST_BYTES:,} bytes; is this the URL of a Headroom?")
        if time.monotonic() > end:
            raise TimeoutError("the response took too long")
    return bytes(found)


def _failure(url: str, error: Exception) -> Exception:
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(reason, ssl.SSLCertVerificationError):
        detail = f"its certificate is not trusted ({reason.verify_message})"
        return AdminError(f"{url}: {detail}; correct the URL, or name your authority's file in SSL_CERT_FILE.")
    if isinstance(reason, ssl.SSLError):
        return AdminError(f"{url} does not speak TLS ({reason.reason}); correct the scheme or the port.")
    if isinstance(reason, socket.gaierror):
        return AdminError(f"{url}: the host name is not known; correct the URL.")
    if isinstance(reason, ConnectionRefusedError):
        return AdminError(f"{url}: nothing listens there; correct the URL, or start Headroom.")
    return LostError(str(reason) or type(reason).__name__)
