"""The command line of `headroom-admin`, and its exit status: 0 done, 1 an error, 2 changes that are not live."""

from __future__ import annotations

import os
import sys
from argparse import SUPPRESS, ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NoReturn

from headroom_edge.admin import policy
from headroom_edge.admin.errors import AdminError
from headroom_edge.admin.exchange import Server
from headroom_edge.admin.session import Session

DONE: Final = 0
FAILED: Final = 1
NOT_LIVE: Final = 2
TIMEOUT_S: Final = 60.0
DEADLINE_S: Final = 600.0
_DETAILED: Final = "exit with 2 if there are changes that are not live"


class _Parser(ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Exits with 1: argparse's own 2 means changes here."""
        self.print_usage(sys.stderr)
        self.exit(FAILED, f"headroom-admin: {message}\n")


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    options = _parser().parse_args(arguments)
    try:
        status = _run(options)
        sys.stdout.flush()
    except AdminError as error:
        _note(str(error))
        status = FAILED
    except KeyboardInterrupt:
        _note("stopped")
        status = FAILED
    except BrokenPipeError:  # whoever read the output has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = FAILED
    sys.exit(status)


def _run(options: Namespace) -> int:
    server = Server.at(
        options.url or os.environ.get("HEADROOM_URL", ""),
        os.environ.get("HEADROOM_TOKEN", "").strip(),
        allow_http=options.allow_http,
    )
    session = Session(server, timeout_s=options.timeout, deadline_s=options.deadline, show=_note)
    if options.action == "export":
        sys.stdout.write(policy.export(session))
        return DONE
    if options.action == "validate":
        _say(policy.validate(session, options.file))
        return DONE
    if options.action == "plan":
        text, is_change = policy.plan(session, options.file, options.out)
        _say(text)
    else:
        planned = policy.PlanFile.read(options.plan) if options.plan else None
        permits = {name: getattr(options, name) for name in ("reason", "force", "emergency", "propose")}
        applied = policy.apply(session, options.file, planned, **permits)
        _say(applied.text)
        is_change = applied.is_waiting
    return NOT_LIVE if is_change and options.detailed_exitcode else DONE


def _parser() -> ArgumentParser:
    parser = _Parser(
        prog="headroom-admin",
        description="Administers a Headroom over HTTPS. The token comes from HEADROOM_TOKEN, never from an option.",
    )
    _add_connection(parser)
    room = parser.add_subparsers(dest="room", required=True, metavar="policy")
    actions = room.add_parser("policy", help="policy as code").add_subparsers(dest="action", required=True)
    export = actions.add_parser("export", help="print the live configuration as a document")
    validate = actions.add_parser("validate", help="list everything that is wrong with the document")
    plan = actions.add_parser("plan", help="show what applying the document would change")
    apply = actions.add_parser("apply", help="apply the document as one revision")
    for action in (validate, plan, apply):
        action.add_argument("file", type=Path, help="- for standard input")
    plan.add_argument("--out", type=Path, metavar="FILE", help="keep the plan, for `apply --plan FILE`")
    apply.add_argument("--plan", type=Path, metavar="FILE", help="apply only what this plan shows")
    apply.add_argument("--reason", required=True)
    apply.add_argument(
        "--force", action="store_true", help="apply it even if it cuts a tenant's limit by more than 10 %%"
    )
    apply.add_argument("--emergency", action="store_true", help="skip the approval; recorded in the audit log")
    apply.add_argument("--propose", action="store_true", help="only file a proposal, for people to start or approve")
    for action in (plan, apply):
        action.add_argument("--detailed-exitcode", action="store_true", help=_DETAILED)
    for action in (export, validate, plan, apply):
        _add_connection(action, is_repeated=True)
    return parser


def _add_connection(parser: ArgumentParser, *, is_repeated: bool = False) -> None:
    """Options that may stand before `policy` or behind its action. Left out behind, the value from before stays."""
    url, flag, timeout, deadline = (SUPPRESS,) * 4 if is_repeated else (None, False, TIMEOUT_S, DEADLINE_S)
    parser.add_argument("--url", default=url, help="such as https://headroom.example.com; default: HEADROOM_URL")
    parser.add_argument("--timeout", type=_seconds, default=timeout, help=f"seconds for one request ({TIMEOUT_S:g})")
    parser.add_argument(
        "--deadline",
        type=_seconds,
        default=deadline,
        help=f"seconds for everything, waiting included ({DEADLINE_S:g})",
    )
    parser.add_argument(
        "--allow-http", action="store_true", default=flag, help="send the token without TLS, inside a safe network"
    )


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 86_400:
        raise ArgumentTypeError(f"{text} is not a number of seconds from 1 to 86400")
    return seconds


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")


def _note(text: str) -> None:
    sys.stderr.write(f"headroom-admin: {text}\n" if "\n" not in text else text + "\n")
    sys.stderr.flush()
