from __future__ import annotations

import pytest

from quotas.csv_text import csv_lines
from quotas.errors import Refused
from quotas.tenants import NewTenant, tenant_archive, tenants_create
from quotas.tenants.sheet import COLUMNS, MOST_ROWS, sheet_tenants
from tenants.models import Tenant
from tests.quotas.world import SAID, newest

pytestmark = pytest.mark.usefixtures("world")


NAMES = "use up to 63 lower case letters, digits and -, starting with a letter or digit"


def problems(text: str, tier: str = "") -> list[str]:
    with pytest.raises(Refused) as refused:
        sheet_tenants(text, tier=tier)
    return [str(problem) for problem in refused.value.problems]


def test_a_table_becomes_tenants_as_they_are_stored() -> None:
    rows = "city,pro,City Cabs,VIP;eu,api@city.test ops@city.test\n,,,,\nmoor,pro,,,\n"
    text = f"\ufeffName,tier,label,tags,contacts\n{rows}"
    assert sheet_tenants(text) == [
        NewTenant("city", "pro", "City Cabs", "UTC", ("eu", "vip"), ("api@city.test", "ops@city.test")),
        NewTenant("moor", "pro"),
    ]


def test_rows_without_a_tier_get_the_one_that_is_given() -> None:
    assert [row.tier for row in sheet_tenants("name,tier\na,\nb,pro\n", tier="free")] == ["free", "pro"]
    assert [row.tier for row in sheet_tenants("name\na\n", tier="free")] == ["free"]


def test_every_problem_has_its_line() -> None:
    text = 'name,tier,timezone\nacme,pro,UTC\n"two\nlines",pro,UTC\ncity,gold,UTC\nx,pro,Mars\nx,pro,UTC\n'
    assert problems(text) == [
        "line 2: name: tenant acme already exists; choose another name",
        f"line 4: tenant: tenant cannot be 'two\\nlines'; {NAMES}",
        "line 5: tier: there is no tier gold; create it, or choose another",
        "line 6: timezone: timezone 'Mars' is unknown; use an IANA name such as Europe/Berlin",
        "line 7: name: line 6 has the same name; keep one",
    ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "the table is empty"),
        ("name,tier\n", "there is no row below the header"),
        ("tier\npro\n", "the column name is missing"),
        ("name,plan\nx,pro\n", "there is no column 'plan'"),
        ("name,name\nx,y\n", "the column name is there twice"),
        ("name,tier\nx,pro,z\n", "more or fewer cells"),
        ('name,tier\n"x,pro\n', "this is not CSV"),
        ("name\nx\x00\n", "contains a NUL"),
        ("name\n" + "x" * 2_000_000, "the maximum is 2,000,000"),
        ("name\n" + "\n".join(f"t{n}" for n in range(MOST_ROWS + 1)), "more than 20,000 rows"),
    ],
)
def test_what_is_no_table_is_refused_with_one_sentence(text: str, sentence: str) -> None:
    (found,) = problems(text, tier="free")
    assert sentence in found


def test_an_archived_name_stays_taken() -> None:
    tenant_archive(name="bolt", **SAID)
    assert problems("name,tier\nbolt,pro\n") == ["line 2: name: tenant bolt already exists; choose another name"]


def test_what_an_export_neutralised_is_read_as_it_was() -> None:
    text = "".join(csv_lines(COLUMNS, [("city", "pro", "=SUM(A1)", "UTC", "", "", "")]))
    assert sheet_tenants(text)[0].label == "=SUM(A1)"


def test_many_are_created_in_one_revision() -> None:
    before = newest().number
    rows = sheet_tenants("name\n" + "\n".join(f"t{n}" for n in range(3_000)), tier="free")
    tenants_create(tenants=rows, **SAID)
    assert (newest().number, Tenant.objects.count()) == (before + 1, 3_002)
