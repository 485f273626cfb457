"""What the service gives back: a message, or a status of gRPC with one sentence. Without grpc, for any server."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Status(IntEnum):
    """Of gRPC's codes, those that the service ends a call with."""

    INVALID_ARGUMENT = 3
    NOT_FOUND = 5
    PERMISSION_DENIED = 7
    UNAVAILABLE = 14
    UNAUTHENTICATED = 16


@dataclass(frozen=True, slots=True)
class Reply:
    message: bytes  # an encoded RateLimitResponse
    wait_s: float = 0.0  # send it after this time


class FaultError(Exception):
    """The call ends with a status instead of a decision. Envoy then follows its own failure_mode_deny."""

    def __init__(self, status: Status, detail: str) -> None:
        super().__init__(detail)
        self.status = status


def invalid(detail: str) -> FaultError:
    return FaultError(Status.INVALID_ARGUMENT, detail)
