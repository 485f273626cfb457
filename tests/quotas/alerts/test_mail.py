"""Mail at a real SMTP server: no text that somebody chose becomes a header, a recipient or a second message."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from email import message_from_bytes
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session

from quotas.alerts.messages import AlertEvent, body_of
from quotas.alerts.sending import alerts_send
from quotas.alerts.settings import alert_target_create
from quotas.errors import Refused
from quotas.models import AlertDelivery, AlertTarget
from tests.quotas.world import SAID
from tests.valkeys import free_port

pytestmark = pytest.mark.django_db
NOW = datetime(2031, 3, 5, 14, 30, tzinfo=UTC)
ADDRESS = "ops@example.com"
HEADERS = {
    *("From", "To", "Subject", "Date", "Message-ID"),
    *("MIME-Version", "Content-Type", "Content-Transfer-Encoding"),
}
BREAKS = ["\r\n", "\n", "\r", "\r\n\r\n", "\n ", "\x0b", "\x0c", "\x85", "\u2028"]
DEEDS = ["Bcc: evil@example.net", "To: evil@example.net", ".\r\nMAIL FROM:<evil@example.net>", "RCPT TO:<evil@x.net>"]


class Sink:
    """Takes every message; `refuses` is its answer to recipients."""

    def __init__(self) -> None:
        self.got: list[Envelope] = []
        self.refuses = ""

    async def handle_RCPT(  # noqa: N802
        self, _: SMTP, __: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if self.refuses:
            return self.refuses
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _: SMTP, __: Session, envelope: Envelope) -> str:  # noqa: N802
        self.got.append(envelope)
        return "250 OK"


@pytest.fixture
def sink(settings: Any) -> Iterator[Sink]:
    handler = Sink()
    controller = Controller(handler, hostname="127.0.0.1", port=free_port(), ready_timeout=60)
    controller.start()
    settings.HEADROOM_HAS_MAIL = True
    settings.EMAIL_BACKEND, settings.EMAIL_HOST = "quotas.alerts.mail.TimedBackend", "127.0.0.1"
    settings.EMAIL_PORT = controller.port
    yield handler
    controller.stop()


def queued(target: AlertTarget, **texts: str) -> AlertDelivery:
    event = AlertEvent(
        **{
            "alert": "drain-lag",
            "about": "",
            "state": "firing",
            "severity": "warning",
            "value": 70,
            "threshold": 60,
            "text": "the counters are late",
            "since": NOW.isoformat(),
            "runbook": "docs/runbooks/drain-lag.md",
            **texts,
        }  # type: ignore[arg-type]
    )
    return AlertDelivery.objects.create(target=target, body=body_of([event]), due_at=NOW, created=NOW)


def only(sink: Sink) -> Any:
    """The one message that arrived, for the one recipient."""
    (envelope,) = sink.got
    assert envelope.rcpt_tos == [ADDRESS]
    assert isinstance(envelope.content, bytes)
    return message_from_bytes(envelope.content)


def test_an_alert_arrives_with_its_text_and_number(sink: Sink) -> None:
    row = queued(alert_target_create(kind="email", address=ADDRESS, **SAID).row)
    assert alerts_send(NOW) == 1
    message = only(sink)
    assert message["Subject"] == "[Headroom] firing: the counters are late"
    assert message["Message-ID"] == f"<alert-{row.pk}@headroom>"
    assert "docs/runbooks/drain-lag.md" in message.get_payload()


@pytest.mark.parametrize("field", ["text", "alert", "about", "since", "runbook"])
def test_no_text_of_an_alert_becomes_a_header_or_a_recipient(sink: Sink, field: str) -> None:
    target = alert_target_create(kind="email", address=ADDRESS, **SAID).row
    hostile = [f"acme{line}{deed}" for line in BREAKS for deed in DEEDS]
    for text in hostile:
        queued(target, **{field: text})
    while alerts_send(NOW):
        pass
    assert len(sink.got) == len(hostile)
    for envelope in sink.got:
        assert envelope.rcpt_tos == [ADDRESS]
        assert envelope.mail_from == "headroom@localhost"
        assert isinstance(envelope.content, bytes)
        message = message_from_bytes(envelope.content)
        assert set(message.keys()) <= HEADERS
        assert sorted(message.keys()) == sorted(set(message.keys()))
        assert message["To"] == ADDRESS


HOSTILE_ADDRESSES = [f"{ADDRESS}{line}{deed}" for line in BREAKS for deed in DEEDS] + [
    f"{ADDRESS}, evil@example.net",
    f"{ADDRESS}>\r\nRCPT TO:<evil@example.net",
    f"<{ADDRESS}> NOTIFY=SUCCESS",
    f"evil@example.net <{ADDRESS}>",
    '"a\r\nBcc: evil@example.net"@example.com',
]


def test_an_address_that_is_more_than_one_is_refused(settings: Any) -> None:
    settings.HEADROOM_HAS_MAIL = True
    for address in [*HOSTILE_ADDRESSES, f"{ADDRESS}\0"]:
        with pytest.raises(Refused, match="address"):
            alert_target_create(kind="email", address=address, **SAID)


def test_an_address_written_past_the_check_reaches_nobody_else(sink: Sink) -> None:
    for address in HOSTILE_ADDRESSES:
        queued(AlertTarget.objects.create(kind="email", address=address))
    alerts_send(NOW)
    for envelope in sink.got:
        assert "evil@example.net" not in envelope.rcpt_tos
        assert isinstance(envelope.content, bytes)
        assert set(message_from_bytes(envelope.content).keys()) <= HEADERS
    # Whatever was not sent is tried again like any other failure, and did not end the run.
    assert AlertDelivery.objects.filter(tries=1).count() == len(HOSTILE_ADDRESSES)


def test_a_refused_recipient_is_a_problem_without_the_address(sink: Sink) -> None:
    sink.refuses = f"550 <{ADDRESS}> has left"
    row = queued(alert_target_create(kind="email", address=ADDRESS, **SAID).row)
    assert alerts_send(NOW) == 0
    row.refresh_from_db()
    assert row.problem == "the mail server refused the recipient: 550"
