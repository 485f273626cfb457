"""Limits and overrides in the words that people read, long and short."""

from dataclasses import dataclass

from headroom_edge.algorithms.base import Algorithm, format_duration, per_text
from headroom_edge.algorithms.bucket import Gcra, LeakyBucket, TokenBucket, rate_text
from headroom_edge.algorithms.calendar_quota import CalendarQuota
from headroom_edge.algorithms.concurrency import Concurrency
from headroom_edge.algorithms.fixed_window import FixedWindow
from headroom_edge.algorithms.sliding_counter import SlidingCounter
from headroom_edge.algorithms.sliding_log import SlidingLog
from headroom_edge.plan.subject import Subject
from quotas.policies.spec import Limit, Mode, Override

MODES: dict[Mode, str] = {"enforce": "enforced", "shadow": "in shadow", "off": "off"}


@dataclass(frozen=True, slots=True)
class Short:
    """A limit in a few characters: its rate, and its burst or hold time."""

    main: str
    rest: str = ""

    def __str__(self) -> str:
        return f"{self.main} {self.rest}".rstrip()


def limit_words(limit: Limit, *, is_global: bool = False) -> str:
    unit = ", in units of cost" if limit.unit == "cost" else ""
    words = f"{limit.algorithm.words()}{unit}, {counted_words(limit.subject, is_global)}, {MODES[limit.mode]}"
    lease = lease_words(limit.lease_ms)
    return f"{words}, {lease}" if lease else words


def lease_words(lease_ms: int | None) -> str:
    """Empty if the limit does not say: then a lease lasts at most 100 ms."""
    if lease_ms is None:
        return ""
    return f"leased for at most {milliseconds(lease_ms)}" if lease_ms else "never leased"


def milliseconds(ms: int) -> str:
    """`250 ms`, `1 s`."""
    return f"{ms // 1_000} s" if ms % 1_000 == 0 else f"{ms:,} ms"


def counted_words(subject: Subject, is_global: bool) -> str:
    """Whom one counter is for: `per API key`, or `all tenants together` for a global limit."""
    if is_global and not subject.alternatives:
        return "all tenants together"
    per = f"per {subject_words(subject)}"
    return f"{per}, all tenants together" if is_global else per


def subject_words(subject: Subject) -> str:
    """For people who do not configure limits: `API key or address` for key|ip."""
    return " or ".join(" and ".join(map(_dimension, names)) for names in subject.alternatives) or "tenant"


def _dimension(name: str) -> str:
    return {"key": "API key", "ip": "address"}.get(name, name)


def override_words(override: Override) -> str:
    if override.multiplier:
        return "every limit × {}/{}".format(*override.multiplier)
    return "other values for " + ", ".join(sorted(override.limits))


def limit_short(algorithm: Algorithm) -> Short:
    match algorithm:
        case TokenBucket() | Gcra() | LeakyBucket():
            typed = algorithm.typed_rate
            rate = compact(typed) if isinstance(typed, int) else rate_text(typed)
            rate = f"{rate}/{per_text(algorithm.typed_per_us)}"
            return Short(rate, f"{algorithm.size_field} {compact(algorithm.size)}")
        case FixedWindow() | SlidingCounter() | SlidingLog():
            return Short(f"{compact(algorithm.limit)}/{per_text(algorithm.window_us)}")
        case CalendarQuota():
            return Short(f"{compact(algorithm.limit)}/{algorithm.period}")
        case Concurrency():
            return Short(f"{compact(algorithm.limit)} at once", f"hold {format_duration(algorithm.hold_us)}")
    return Short(algorithm.name)


def algorithm_words(name: str) -> str:
    """`sliding_log` is a sliding log; only the meter's name is an abbreviation."""
    return "GCRA" if name == Gcra.name else name.replace("_", " ")


def compact(value: int) -> str:
    """2,500,000 becomes 2.5M. A number that would lose a digit is written in full."""
    for size, letter in ((10**9, "B"), (10**6, "M"), (10**3, "k")):
        if value >= 10 * size or (value >= size and letter != "k"):
            text = f"{value / size:.3g}{letter}"
            return text if float(text[:-1]) * size == value else f"{value:,}"
    return f"{value:,}"
