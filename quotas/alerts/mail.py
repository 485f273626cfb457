"""Alerts by mail, over SMTP, with one deadline for the whole exchange."""

from __future__ import annotations

import re
import smtplib
import socket
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from django.conf import settings
from django.core.mail import EmailMessage
from django.core.mail.backends.smtp import EmailBackend

from quotas.alerts.deadline import Deadline
from quotas.alerts.messages import subject_of, text_of

LONGEST_SUBJECT = 200  # characters
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


def send(number: int, address: str, body: Mapping[str, Any]) -> None:
    """`number`: of the message, always the same when it is sent again, so that mail programs show it once."""
    message = EmailMessage(
        in_one_line(subject_of(body))[:LONGEST_SUBJECT],
        text_of(body),
        settings.DEFAULT_FROM_EMAIL,
        [address],
        headers={"Message-ID": f"<alert-{number}@headroom>"},
    )
    try:
        message.send()
    except smtplib.SMTPRecipientsRefused as error:
        # Its own text contains the address.
        codes = sorted({code for code, _ in error.recipients.values()})
        raise OSError(f"the mail server refused the recipient: {', '.join(map(str, codes))}") from None


def in_one_line(text: str) -> str:
    """A line break in a header would begin another header."""
    return _UNPRINTABLE.sub(" ", text).strip()


class TimedSMTP(smtplib.SMTP):
    """Connects through a deadline."""

    def __init__(self, *arguments: Any, deadline: Deadline, **named: Any) -> None:
        self.deadline = deadline
        super().__init__(*arguments, **named)

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return self.deadline.connect((str(info[4][0]), port) for info in found)


class TimedSMTPS(smtplib.SMTP_SSL, TimedSMTP):
    """SMTP_SSL puts TLS on what the next class in line, TimedSMTP, connects."""


class TimedBackend(EmailBackend):
    """Django's mail client. EMAIL_TIMEOUT is the time for all of it, not for each reply."""

    def send_messages(self, email_messages: Sequence[EmailMessage]) -> int:
        with Deadline(self.timeout or 0) as self._deadline:
            return super().send_messages(email_messages) or 0

    @property
    def connection_class(self) -> Callable[..., smtplib.SMTP]:  # type: ignore[override] # only ever called
        return partial(TimedSMTPS if self.use_ssl else TimedSMTP, deadline=self._deadline)

    def close(self) -> None:
        """Does not wait for the reply to QUIT: the messages are accepted, and a late reply would send them again."""
        if self.connection is None:
            return
        try:
            self.connection.putcmd("quit")
        except OSError:
            pass
        finally:
            self.connection.close()
            self.connection = None
