"""Limits and overrides in the words that people read, long and short."""

from collections.abc import Iterator
from dataclasses import dataclass

from headroom_edge.algorithms.adaptive_concurrency import AdaptiveConcurrency
from headroom_edge.algorithms.base import Algorithm, format_duration, per_text
from headroom_edge.algorithms.bucket import Gcra, LeakyBucket, TokenBucket, rate_text
from headroom_edge.algorithms.calendar_quota import CalendarQuota
from headroom_edge.algorithms.concurrency import Concurrency
from headroom_edge.algorithms.fixed_window import FixedWindow
from headroom_edge.algorithms.sharing import Borrowing, Pool
from headroom_edge.algorithms.sliding_counter import SlidingCounter
from headroom_edge.algorithms.sliding_log import SlidingLog
from headroom_edge.plan.priority import PRIORITIES, filled
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
    words = f"{words}, {lease}" if lease else words
    return f"{words}, {limit.adapt.words()}" if limit.adapt else words


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
            return Short(_rate(algorithm), f"{algorithm.size_field} {compact(algorithm.size)}")
        case FixedWindow() | SlidingCounter() | SlidingLog():
            return Short(f"{compact(algorithm.limit)}/{per_text(algorithm.window_us)}")
        case CalendarQuota():
            return Short(f"{compact(algorithm.limit)}/{algorithm.period}")
        case Concurrency():
            return Short(f"{compact(algorithm.limit)} at once", f"hold {format_duration(algorithm.hold_us)}")
        case AdaptiveConcurrency():
            bounds = f"{compact(algorithm.least)} to {compact(algorithm.most)} at once"
            return Short(bounds, f"target {algorithm.target_words}")
        case Pool():
            return Short(_rate(algorithm.bucket), f"pool, burst {compact(algorithm.burst)}")
        case Borrowing():
            per = per_text(algorithm.per_us)
            most = f"up to {compact(algorithm.ceiling)}/{per}" if algorithm.ceiling else "more"
            return Short(f"{compact(algorithm.assured)}/{per}", f"guaranteed, {most} from {algorithm.parent}")
    return Short(algorithm.name)


def most_short(algorithm: Algorithm) -> Short:
    """The most that it lets through, which use is measured against: of a limit that borrows, its ceiling."""
    if isinstance(algorithm, Borrowing) and algorithm.most:
        return Short(_rate(algorithm.most), f"burst {compact(algorithm.most.size)}")
    return limit_short(algorithm)


def _rate(bucket: TokenBucket | Gcra | LeakyBucket) -> str:
    typed = bucket.typed_rate
    rate = compact(typed) if isinstance(typed, int) else rate_text(typed)
    return f"{rate}/{per_text(bucket.typed_per_us)}"


def sharing_words(algorithm: Algorithm) -> tuple[str, ...]:
    """What a limit that shares buys, in sentences. Empty for all others."""
    match algorithm:
        case Pool():
            return tuple(_pool_sentences(algorithm))
        case Borrowing():
            return tuple(_borrowing_sentences(algorithm))
    return ()


def _pool_sentences(pool: Pool) -> Iterator[str]:
    yield f"All who borrow from it get {pool.bucket.rate_words} together."
    if pool.reserve:
        yield f"Guaranteed shares may use all {pool.burst:,} at once; loans leave {pool.reserve:,} free for them."
    yield _levels(pool.burst - pool.reserve)


def _borrowing_sentences(share: Borrowing) -> Iterator[str]:
    per = per_text(share.per_us)
    if share.assured:
        yield f"{share.assured:,}/{per} are guaranteed, up to {share.burst:,} at once, whatever the others use."
    else:
        yield f"Nothing is guaranteed: it gets what {share.parent} has left."
    most = f"{share.ceiling:,}/{per} in all" if share.ceiling else f"as much as {share.parent} lends"
    yield f"It borrows up to {most}. When others ask too, its part has the weight {share.counts_as:,}."
    if share.reserve and share.burst > share.reserve:
        yield f"It lends to others itself. {_levels(share.burst - share.reserve)}"


def _levels(lendable: int) -> str:
    """How far requests of each priority may fill it."""
    levels = ", ".join(f"{priority} {filled(lendable, priority):,}" for priority in PRIORITIES)
    return f"How much it lends at once, by the request's priority: {levels}."


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
