"""The Lua library: assembled from the files in lua/, loaded into servers that have none or a lower version."""

from functools import cache
from pathlib import Path
from typing import Any, Protocol

# Raise it whenever the code of a .lua file changes (comments do not count): a server keeps the highest version.
VERSION = 15
NAME = "headroom"
SIMULATION_NAME = "headroom_sim"

_KERNELS = (
    "bucket",
    "scaled_bucket",
    "fixed_window",
    "sliding_counter",
    "sliding_log",
    "concurrency",
    "adaptive_concurrency",
    "calendar_quota",
    "chain",
)
_SHARED = ("moved", "leases", "decision")
_FUNCTIONS = (
    "check",
    "lease",
    "release",
    "live",
    "refund",
    "reset",
    "profile",
    "calendars",
    "publish",
    "bypass",
    "drain",
    "enforcers",
    "health",
    "observe",
    "version",
)
_MINIMUM = {"redis": (7, 0), "valkey": (8, 0)}


class LibraryError(RuntimeError):
    """The server cannot run the library. The message says what to change."""


class RedisClient(Protocol):
    """The part of a redis-py client that the loader needs."""

    def execute_command(self, *args: Any, **options: Any) -> Any: ...


def _read(name: str) -> str:
    return (Path(__file__).parent / "lua" / f"{name}.lua").read_text()


def _assemble(name: str, prefix: str, clock: str) -> str:
    parts = [
        "keys",
        "reach",
        "record",
        "plans",
        "account",
        "locate",
        "newcomers",
        clock,
        *_KERNELS,
        *_SHARED,
        *_FUNCTIONS,
    ]
    blocks = "\n".join(f"do\n{_read(part)}end" for part in parts)
    register = _read("register").replace("@PREFIX@", prefix)
    version = f"H.version = {VERSION}"
    return f"#!lua name={name}\n{_read('lib')}\n{version}\n{blocks}\n{register}"


@cache
def source() -> str:
    return _assemble(NAME, "hr_", "clock")


@cache
def simulation_source() -> str:
    """The same library with an explicit `now` as first argument (functions hs_…), for throw-away servers only."""
    return _assemble(SIMULATION_NAME, "hs_", "clock_sim")


def ensure_loaded(server: RedisClient) -> bool:
    """Load the library if the server has none or a lower version. Returns whether it was loaded."""
    if stored_version(server) >= VERSION:
        return False
    _refuse_old_server(server)
    server.execute_command("FUNCTION", "LOAD", "REPLACE", source())
    return True


def stored_version(server: RedisClient) -> int:
    try:
        return int(server.execute_command("FCALL_RO", "hr_version", 0))
    except Exception as error:  # redis-py, hiredis and raw clients each have their own error class
        if "function not found" in str(error).lower():
            return 0
        raise


def _refuse_old_server(server: RedisClient) -> None:
    info = server.execute_command("INFO", "server")
    facts = info if isinstance(info, dict) else _parse_info(info)
    flavour = "valkey" if "valkey_version" in facts else "redis"
    version = str(facts[f"{flavour}_version"])
    if tuple(int(part) for part in version.split(".")[:2]) < _MINIMUM[flavour]:
        raise LibraryError(
            f"{flavour} {version} lacks the function libraries that Headroom needs; "
            "use Redis 7.0 or later, or Valkey 8.0 or later"
        )


def _parse_info(info: bytes | str) -> dict[str, str]:
    text = info.decode() if isinstance(info, bytes) else info
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
