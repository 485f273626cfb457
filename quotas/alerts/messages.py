"""The content of alert messages. Several alerts are combined into one message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

MOST_LISTED: Final = 20

EventState = Literal["firing", "reminder", "resolved", "test"]


@dataclass(frozen=True, slots=True)
class AlertEvent:
    alert: str
    about: str
    state: EventState
    severity: str
    value: float
    threshold: float
    text: str
    since: str  # ISO 8601
    runbook: str


def body_of(events: Sequence[AlertEvent], former: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The body of one message. `former`: a waiting message to merge; the newest event of an alert wins."""
    known = {(one["alert"], one["about"]): one for one in (former or {}).get("events", [])}
    known |= {(event.alert, event.about): asdict(event) for event in events}
    listed = list(known.values())[:MOST_LISTED]
    others = len(known) - len(listed) + (former or {}).get("others", 0)
    return {"events": listed, "others": others}


def subject_of(body: Mapping[str, Any]) -> str:
    events = body["events"]
    more = len(events) - 1 + body["others"]
    first = events[0]
    return f"[Headroom] {first['state']}: {first['text']}" + (f", and {more} more" if more else "")


def text_of(body: Mapping[str, Any]) -> str:
    lines = [
        f"{event['state']}: {event['text']} (since {event['since']}; {event['runbook']})" for event in body["events"]
    ]
    if body["others"]:
        lines.append(f"and {body['others']} more")
    return "\n".join(lines)
