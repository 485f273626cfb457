"""The way to the server: waiting, repeating, tasks, TLS, and addresses that are not Headroom's."""

from __future__ import annotations

import ipaddress
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from api.v1.document_runs import answer
from headroom_edge.admin import session
from quotas.models import Revision, Task
from quotas.whole_tasks import whole_task_run
from tests.headroom_edge.admin.conftest import Admin
from tests.headroom_edge.admin.front import LOST, Front, Reply
from tests.headroom_edge.admin.test_policy import GOLD
from tests.quotas.world import newest

pytestmark = [pytest.mark.xdist_group("admin"), pytest.mark.django_db(transaction=True)]
SOON = {"Retry-After": "1", "Content-Type": "application/problem+json"}
BUSY = Reply(429, SOON, b'{"code": "quota-exceeded", "detail": "The limit is used up."}')
AWAY = Reply(503, SOON, b'{"code": "unavailable", "detail": "PostgreSQL cannot be reached."}')


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "limits.yaml"
    path.write_text(GOLD)
    return path


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long it would have slept."""
    slept: list[float] = []
    monkeypatch.setattr(session, "sleep", slept.append)
    return slept


def test_it_waits_as_long_as_the_server_says(admin: Admin, web_port: int, file: Path, no_pause: list[float]) -> None:
    with Front(web_port, BUSY, AWAY) as front:
        plan = admin("policy", "plan", file, url=front.url)
    assert (plan.status, no_pause) == (0, [1.0, 1.0])
    assert plan.err.splitlines()[0] == "headroom-admin: The limit is used up; trying again in 1 s"


def test_it_gives_up_at_the_deadline(admin: Admin, web_port: int, file: Path, no_pause: list[float]) -> None:
    with Front(web_port, Reply(503, {"Retry-After": "900"}, AWAY.body)) as front:
        late = admin("policy", "plan", file, url=front.url)
    assert (late.status, no_pause) == (1, [])
    assert "PostgreSQL cannot be reached; gave up after the deadline of 600 s" in late.err


@pytest.mark.parametrize("is_first", [True, False])
def test_the_deadline_stands_before_or_behind_the_action(
    admin: Admin, web_port: int, file: Path, *, is_first: bool
) -> None:
    own, command = ["--deadline", "30"], ["policy", "plan", file]
    with Front(web_port, Reply(503, {"Retry-After": "900"}, AWAY.body)) as front:
        late = admin(*own, *command, url=front.url) if is_first else admin(*command, *own, url=front.url)
    assert "gave up after the deadline of 30 s" in late.err


def test_what_was_applied_while_the_response_was_lost_is_applied_once(
    admin: Admin, web_port: int, file: Path, tmp_path: Path
) -> None:
    kept = tmp_path / "plan.json"
    admin("policy", "plan", file, "--out", kept)
    before = Revision.objects.count()
    with Front(web_port, LOST) as front:
        applied = admin("policy", "apply", file, "--plan", kept, "--reason", "a tier", url=front.url)
    assert (applied.status, applied.out) == (0, f"applied as {newest()}\n")
    assert (Revision.objects.count(), len(front.seen)) == (before + 1, 2)


@pytest.fixture
def large(tmp_path: Path) -> Path:
    path = tmp_path / "large.yaml"
    path.write_text("tiers:\n" + "\n".join(f"  - {{name: t{number}}}" for number in range(501)))
    return path


@pytest.fixture
def working(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the command waits, a worker does what was filed."""

    def work(_: float) -> None:
        whole_task_run(Task.objects.latest("pk").pk, answer)

    monkeypatch.setattr(session, "sleep", work)


def test_a_large_document_is_followed_to_its_end(admin: Admin, large: Path, tmp_path: Path, working: None) -> None:
    kept = tmp_path / "plan.json"
    plan = admin("policy", "plan", large, "--out", kept, "--detailed-exitcode")
    assert (plan.status, plan.err) == (2, "headroom-admin: waiting: 0 %\n")
    assert '+ tier "t500"' in plan.out
    applied = admin("policy", "apply", large, "--plan", kept, "--reason", "many")
    assert (applied.status, applied.out) == (0, f"applied as {newest()}\n")
    late = admin("policy", "apply", large, "--plan", kept, "--reason", "again")
    assert (late.status, "changed since" in late.err) == (1, True)


def test_a_large_document_is_refused_with_its_lines(admin: Admin, large: Path, working: None) -> None:
    large.write_text(large.read_text() + "\n  - {name: T9}\n  - {name: t9}" + "\n#" * 70_000)
    wrong = admin("policy", "validate", large)
    assert (wrong.status, "line 503: " in wrong.err) == (1, True)


def test_a_command_that_is_stopped_cancels_its_task(admin: Admin, large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(session, "sleep", stop)
    stopped = admin("policy", "apply", large, "--reason", "many")
    assert (stopped.status, "the task was cancelled" in stopped.err) == (1, True)
    assert Task.objects.get().problem == "it was cancelled: headroom-admin was stopped"


def test_a_redirect_is_told_and_not_followed(admin: Admin, web_port: int, file: Path) -> None:
    with Front(web_port) as elsewhere, Front(web_port, Reply(302, {"Location": elsewhere.url})) as front:
        led = admin("policy", "plan", file, url=front.url)
    assert (led.status, elsewhere.seen) == (1, [])
    assert f"redirects to {elsewhere.url}; give the URL that it leads to" in led.err


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("", "No URL was given"),
        ("headroom.example.com", "is not a URL of a Headroom"),
        ("ftp://headroom.example.com", "is not a URL of a Headroom"),
        ("https://x:port", "is not a URL"),
        ("https://ann@headroom.example.com", "has a user, a query or a fragment"),
        ("http://headroom.example.com", "would send the token in clear text"),
        ("http://127.0.0.1:1", "nothing listens there"),
        ("https://headroom.invalid", "the host name is not known"),
    ],
)
def test_an_address_that_is_wrong(admin: Admin, file: Path, url: str, told: str) -> None:
    wrong = admin("policy", "plan", file, url=url)
    assert (wrong.status, wrong.out, len(wrong.err.splitlines())) == (1, "", 1)
    assert told in wrong.err


def test_a_server_that_is_not_headroom(admin: Admin, web_port: int, file: Path) -> None:
    with Front(web_port, Reply(404, {"Content-Type": "text/html"}, b"<h1>none</h1>")) as front:
        wrong = admin("policy", "plan", file, url=front.url)
    assert "answers with status 404, but not as Headroom's API does; correct the URL" in wrong.err


def test_no_token_and_a_wrong_option(admin: Admin, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert admin("policy", "apply", file).status == 1  # without a reason; argparse's own status would mean changes
    missing = admin("policy", "plan", "nowhere.yaml").err
    assert missing == "headroom-admin: nowhere.yaml does not exist; correct the name.\n"
    monkeypatch.setenv("HEADROOM_TOKEN", "hr_a\nb")
    assert "has characters that no token has" in admin("policy", "plan", file).err
    monkeypatch.delenv("HEADROOM_TOKEN")
    assert "No token was given; set HEADROOM_TOKEN" in admin("policy", "plan", file).err


def test_a_certificate_counts_only_if_it_is_trusted(
    admin: Admin, web_port: int, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = tmp_path / "certificate.pem"
    make_certificate(certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with Front(web_port, tls=context) as front:
        refused = admin("policy", "plan", file, url=front.url)
        assert (refused.status, front.seen) == (1, [])
        assert "its certificate is not trusted" in refused.err
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert admin("policy", "plan", file, url=front.url).status == 0


def make_certificate(path: Path) -> None:
    """For 127.0.0.1, signed by itself; with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(address, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    path.write_bytes(private + certificate.public_bytes(pem))
