"""What a caller may ask, and the bytes it becomes."""

from __future__ import annotations

import hiredis
import pytest

from headroom_edge import Check
from headroom_edge.check import encode_call, encode_check, pack


def words(command: bytes) -> list[bytes]:
    reader = hiredis.Reader()
    reader.feed(command)
    found: list[bytes] = reader.gets()
    return found


@pytest.mark.parametrize("tenant", ["", "Acme", "-acme", "a" * 64, "acme\n", "a_b", "ä", None, 7, b"acme"])
def test_a_wrong_tenant_is_a_mistake(tenant: object) -> None:
    with pytest.raises(ValueError, match="must be 1 to 63 lower case letters, digits and hyphens"):
        Check(tenant, "search")  # type: ignore[arg-type]


@pytest.mark.parametrize("endpoint", ["", "x" * 201, None, 3])
def test_a_wrong_endpoint_is_a_mistake(endpoint: object) -> None:
    with pytest.raises(ValueError, match="endpoint must be a name"):
        Check("acme", endpoint)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "cost", [0, -1, 1.0, 1.5, float("nan"), float("inf"), True, "1", "0x10", "", 10**9 + 1, 10**18, [1]]
)
def test_a_wrong_cost_is_a_mistake(cost: object) -> None:
    with pytest.raises(ValueError, match="cost must be a whole number from 1 to 1,000,000,000"):
        Check("acme", "search", cost=cost)  # type: ignore[arg-type]


@pytest.mark.parametrize("dimension", ["ALL", "all", "holder", "tenant", "IP", "", "a b", "x" * 33, 5])
def test_a_wrong_dimension_is_a_mistake(dimension: object) -> None:
    with pytest.raises(ValueError, match="is not a valid dimension"):
        Check("acme", "search", {dimension: "x"})  # type: ignore[dict-item]


@pytest.mark.parametrize("value", [1, b"1.2.3.4", 1.5, ["x"]])
def test_a_subject_that_is_not_text_is_a_mistake(value: object) -> None:
    with pytest.raises(ValueError, match="ip in the subject must be text"):
        Check("acme", "search", {"ip": value})  # type: ignore[dict-item]


def test_more_dimensions_than_the_store_takes_are_a_mistake() -> None:
    Check("acme", "search", {f"d{n}": "x" for n in range(31)})
    with pytest.raises(ValueError, match="at most 31 dimensions"):
        Check("acme", "search", {f"d{n}": "x" for n in range(32)})


def test_a_check_is_one_fcall_on_the_tenants_shard() -> None:
    check = Check("acme", "search", {"ip": "10.0.0.1", "key": None}, cost=3)
    assert words(encode_check("hr_check", check, 64, rows=False)) == (
        [b"FCALL", b"hr_check", b"1", b"hr:{62}", b"acme", b"search", b"3", b"ip", b"10.0.0.1"]
    )


def test_rows_and_holder_stand_where_the_store_expects_them() -> None:
    check = Check("acme", "search", {"ip": "10.0.0.1"}, holder="me")
    assert words(encode_check("hr_check", check, 64, rows=True))[6:] == (
        [b"*", b"ALL", b"ip", b"10.0.0.1", b"holder", b"me"]
    )


def test_other_calls_carry_their_arguments_before_the_subject() -> None:
    command = encode_call("hr_refund", Check("acme", "search", {"ip": "::1"}), 64, "*", b"\x00\xff")
    assert words(command)[4:] == [b"acme", b"search", b"*", b"\x00\xff", b"ip", b"::1"]


@pytest.mark.parametrize("value", ["a\r\nFLUSHALL\r\n", "\x00", "\ud800half", "é{}", "x" * 1_000_000])
def test_a_value_from_the_internet_stays_one_argument(value: str) -> None:
    command = words(pack(("FCALL", value, "last")))
    assert command == [b"FCALL", value.encode("utf-8", "surrogatepass"), b"last"]
