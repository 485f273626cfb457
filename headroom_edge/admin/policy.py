"""Policy as code over HTTP: the same words and texts as `manage.py policy`."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from headroom_edge.admin.errors import AdminError
from headroom_edge.admin.session import RefusedError, Session

STDIN: Final = Path("-")


@dataclass(frozen=True, slots=True)
class PlanFile:
    """What `apply` has to know of an earlier plan: that it is about the same document and the same revision."""

    document: str  # SHA-256
    revision: int
    etag: str

    @classmethod
    def read(cls, path: Path) -> PlanFile:
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
            return cls(str(raw["document"]), int(raw["revision"]), str(raw["etag"]))
        except FileNotFoundError:
            raise AdminError(f"{path} does not exist; write it with `plan --out {path}`.") from None
        except OSError as error:
            raise AdminError(f"{path} cannot be read: {error.strerror}.") from None
        except (ValueError, KeyError, TypeError):
            raise AdminError(f"{path} is not a plan; write one with `plan --out {path}`.") from None

    def write(self, path: Path) -> None:
        try:
            path.write_text(json.dumps(asdict(self)) + "\n", encoding="utf-8")
        except OSError as error:
            raise AdminError(f"{path} cannot be written: {error.strerror}.") from None


@dataclass(frozen=True, slots=True)
class Applied:
    text: str
    is_waiting: bool  # for an approver


def export(session: Session) -> str:
    return session.text("/v1/document")


def validate(session: Session, file: Path) -> str:
    found = _sent(session, file, "/v1/document/validate", {"document": read_text(file)})
    count = found["policies"]
    return f"{file}: {count} {'policy' if count == 1 else 'policies'}, nothing wrong"


def plan(session: Session, file: Path, out: Path | None) -> tuple[str, bool]:
    """The plan in words, and whether anything would change."""
    text = read_text(file)
    found = _sent(session, file, "/v1/document/plan", {"document": text})
    if out is not None:
        PlanFile(_hash(text), found["revision"], found["etag"]).write(out)
    return str(found["text"]), bool(found["changes"])


def apply(session: Session, file: Path, planned: PlanFile | None, **permits: Any) -> Applied:
    text = read_text(file)
    if planned is not None and planned.document != _hash(text):
        raise AdminError(f"{file} is not the document that was planned; plan it again.")
    headers = {} if planned is None else {"If-Match": planned.etag}
    found = _sent(session, file, "/v1/document/apply", {"document": text, **permits}, headers)
    if "change" in found:
        return Applied(f"filed as change {found['change']}, which waits for an approver", True)
    revision = found["revision"]
    return Applied("no changes" if revision is None else f"applied as revision {revision}", False)


def read_text(file: Path) -> str:
    try:
        return sys.stdin.read() if file == STDIN else file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise AdminError(f"{file} does not exist; correct the name.") from None
    except OSError as error:
        raise AdminError(f"{file} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise AdminError(f"{file} is not UTF-8; save it as UTF-8.") from None


def with_options(refusal: str) -> str:
    """The API names its fields; a command has an option instead."""
    return refusal.replace("apply it anyway (force)", "apply it anyway (--force)")


def _sent(
    session: Session, file: Path, path: str, body: dict[str, Any], headers: dict[str, str] | None = None
) -> dict[str, Any]:
    try:
        return session.post(path, body, headers)
    except RefusedError as refused:
        if refused.status in (400, 409, 422) and "errors" in refused.problem:
            raise AdminError(with_options("\n".join(_each(file, refused.problem["errors"])))) from None
        if refused.status == 412:
            raise AdminError("The configuration has changed since the plan; plan again, then apply.") from None
        raise


def _each(file: Path, errors: list[dict[str, Any]]) -> Iterator[str]:
    for error in errors:
        line = f"line {error['line']}: " if "line" in error else ""
        field, detail = error["field"], error["detail"]
        place = f"{field}: " if field and not detail.startswith(field) else ""
        yield f"{file}: {line}{place}{detail}"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
