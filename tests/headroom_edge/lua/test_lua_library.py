"""The library is whole, current, and refused where it cannot run."""

from pathlib import Path
from typing import Any

import pytest
import redis

from headroom_edge import lua_library


def stored_version(valkey: redis.Redis) -> int:
    reply: Any = valkey.fcall_ro("hr_version", 0)
    return int(reply)


def test_it_is_loaded_once(valkey: redis.Redis) -> None:
    valkey.function_flush()
    assert lua_library.ensure_loaded(valkey)
    assert not lua_library.ensure_loaded(valkey)
    assert stored_version(valkey) == lua_library.VERSION


def test_a_higher_version_is_left_alone(valkey: redis.Redis) -> None:
    newer = lua_library.source().replace(f"H.version = {lua_library.VERSION}", "H.version = 999")
    valkey.function_load(newer, replace=True)
    assert not lua_library.ensure_loaded(valkey)
    assert stored_version(valkey) == 999
    valkey.function_flush()


def test_a_lower_version_is_replaced(valkey: redis.Redis) -> None:
    older = lua_library.source().replace(f"H.version = {lua_library.VERSION}", "H.version = 0")
    valkey.function_load(older, replace=True)
    assert lua_library.ensure_loaded(valkey)
    assert stored_version(valkey) == lua_library.VERSION


def test_every_lua_file_is_part_of_a_library() -> None:
    folder = Path(lua_library.__file__).parent / "lua"
    both = lua_library.source() + lua_library.simulation_source()
    for file in folder.glob("*.lua"):
        first = file.read_text().splitlines()[0]
        assert first in both, file.name
        assert first.startswith("--"), f"{file.name} has no header"


class OldServer:
    def execute_command(self, *args: Any, **_: Any) -> Any:
        if args[0] == "FCALL_RO":
            raise redis.ResponseError("Function not found")
        assert args[0] == "INFO", "nothing is loaded into a server that is too old"
        return b"# Server\r\nredis_version:6.2.14\r\n"


def test_a_server_that_is_too_old_is_refused_in_words() -> None:
    with pytest.raises(lua_library.LibraryError, match=r"redis 6.2.14 .* use Redis 7.0 or later, or Valkey 8.0"):
        lua_library.ensure_loaded(OldServer())


def test_reading_functions_are_allowed_where_writing_is_not(valkey: redis.Redis) -> None:
    lua_library.ensure_loaded(valkey)
    execute: Any = valkey.execute_command
    listed = execute("FUNCTION", "LIST", "LIBRARYNAME", "headroom")
    flags = {f[b"name"].decode(): set(f[b"flags"]) for f in listed[0][b"functions"]}
    assert {name for name, found in flags.items() if b"no-writes" in found} == {
        "hr_live",
        "hr_peek",
        "hr_profile",
        "hr_version",
    }
    allowed = {"hr_calendars", "hr_drain", "hr_release", "hr_refund", "hr_reset", "hr_heartbeat", "hr_report"}
    allowed.add("hr_return")
    assert {name for name, found in flags.items() if b"allow-oom" in found} == allowed
