"""Every number that calibration depends on, with its default and what it means."""

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Parameters:
    # Demand
    history_days: int = 28
    half_life_days: float = 7.0
    censored_above: float = 0.005  # share of denials in an hour above which true demand may be higher
    retry_grace_s: float = 1.0  # a retry so long after its Retry-After is still a retry: the header is in whole seconds
    think_s: float = 0.02  # a client cannot react to a denial sooner; what comes sooner is another request

    # Rate and burst of one tenant on one endpoint
    rate_quantile: float = 0.98  # of the 60 s rates, each weighing as much as it carried
    burst_epsilon: float = 0.001  # share of requests that may find the bucket empty
    burst_seconds: float = 60.0  # a burst above so many seconds of the rate raises the rate instead

    # Outlook from the daily peaks
    trend_days: int = 3
    trend_tau: float = 0.5  # Kendall's: 1 if every day is above all days before it
    trend_damping: float = 0.9  # each day ahead counts so much of the one before
    trend_horizon_days: int = 7  # and never further ahead than has been seen
    unrest: float = 1.0  # standard deviations of the peaks' logarithms to leave room for, if above the margin
    outlook_most: float = 2.0  # highest factor for growth or fluctuation

    # From tenants to the tier, and back
    pool_quantile: float = 0.95
    subject_quantile: float = 0.99  # of a tenant's keys, users or addresses; the largest of them never decides alone
    least_subjects: int = 5  # sampled ones, to speak for a tenant's own limit
    margin: float = 1.15  # on rates
    burst_margin: float = 1.5  # on bursts: they rest on the few worst moments, and vary more
    shrink_days: float = 7.0
    reach_power: float = 2.0  # a tenant is drawn towards its tier by 1 + 1/c^power at most, c its days of evidence
    rare_minutes: float = 30.0  # a tenant that is active for less a day is rarely active
    peak_spread: float = 2.33  # standard deviations of its daily peaks that a rarely active tenant gets room for
    count_below: float = 3.0  # days of evidence; with less, rate and burst cannot be told apart
    least_days: float = 14.0  # of calendar, before anything is proposed
    least_tenants: int = 5

    # Capacity
    capacity_share: float = 0.8

    # What is worth a proposal
    small_change: float = 0.10
    down_days: float = 28.0
    down_below: float = 0.5
    step_up: float = 2.0
    step_down: float = 1.5

    # Life cycle
    shadow_hours: float = 48.0
    evaluate_days: float = 7.0
    rollback_factor: float = 3.0  # 429s above this multiple of the forecast: it is rolled back

    def __post_init__(self) -> None:
        for name in (field.name for field in fields(self)):
            value = getattr(self, name)
            if not 0 < value < 1e6 and not (name in MAY_BE_ZERO and value == 0):
                raise ValueError(f"{name} must be above 0, not {value!r}")
        for name in SHARES:
            if getattr(self, name) > 1:
                raise ValueError(f"{name} is a share and must be at most 1, not {getattr(self, name)!r}")
        for name in FACTORS:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is a factor and must be at least 1, not {getattr(self, name)!r}")


MAY_BE_ZERO = frozenset({"censored_above", "burst_epsilon", "small_change", "retry_grace_s", "think_s", "unrest"})
SHARES = (
    "censored_above",
    "rate_quantile",
    "burst_epsilon",
    "trend_tau",
    "trend_damping",
    "pool_quantile",
    "subject_quantile",
    "capacity_share",
    "small_change",
    "down_below",
)
FACTORS = ("outlook_most", "margin", "burst_margin", "step_up", "step_down", "rollback_factor")

DEFAULTS = Parameters()

WORDS = {
    "history_days": "days of usage that are measured",
    "half_life_days": "days after which an observation has half its weight",
    "censored_above": "share of denials in an hour above which true demand may be higher",
    "retry_grace_s": "seconds after its Retry-After in which a request still counts as a retry",
    "think_s": "seconds that a client needs to react to a denial",
    "rate_quantile": "share of the load that comes no faster than the rate",
    "burst_epsilon": "share of requests that may find the bucket empty",
    "burst_seconds": "longest burst, in seconds of the rate; beyond it the rate is raised instead",
    "trend_days": "days of data needed to detect growth or fluctuation",
    "trend_tau": "how steadily daily peaks must rise to count as growth (Kendall's tau)",
    "trend_damping": "growth on each further day, as a share of the day before",
    "trend_horizon_days": "days ahead that growth is planned for",
    "unrest": "standard deviations of the daily peaks to leave room for",
    "outlook_most": "highest factor for growth or fluctuation",
    "pool_quantile": "share of a tier's tenants that its limit must suit",
    "subject_quantile": "share of a tenant's keys, users or addresses that a limit by them must suit",
    "least_subjects": "sampled keys, users or addresses needed to size a tenant's own limit",
    "margin": "factor on rates",
    "burst_margin": "factor on bursts",
    "shrink_days": "days of evidence at which a tenant's own history has the same weight as its tier's",
    "reach_power": "how quickly evidence binds a tenant to its own history",
    "rare_minutes": "minutes of activity a day below which a tenant counts as rarely active",
    "peak_spread": "standard deviations of its daily peaks to leave room for, for a rarely active tenant",
    "count_below": "days of evidence below which a count per minute is advised instead of a rate and a burst",
    "least_days": "calendar days of history needed before anything is proposed",
    "least_tenants": "tenants needed to size a tier's limit",
    "capacity_share": "share of a backend's capacity that limits may add up to",
    "small_change": "a smaller change is not proposed",
    "down_days": "days that demand must stay low before a limit is lowered",
    "down_below": "demand below this share of the limit counts as low",
    "step_up": "highest factor of one raise",
    "step_down": "highest divisor of one cut",
    "shadow_hours": "hours in shadow before a recommendation may be enforced",
    "evaluate_days": "days after which an enforced recommendation is evaluated",
    "rollback_factor": "denials above this multiple of the forecast roll it back",
}
