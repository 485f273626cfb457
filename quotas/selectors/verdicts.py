"""Which row of the store's reply belongs to which limit of the configuration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headroom_edge.decision import Row
from headroom_edge.keys import endpoint_number
from quotas.models import Endpoint
from quotas.policy.spec import EVERYWHERE
from quotas.selectors.explanation import ExplainedLimit, Explanation


@dataclass(frozen=True, slots=True)
class Verdict:
    explained: ExplainedLimit
    row: Row | None  # None: the store does not enforce it (yet)


def verdicts(explanation: Explanation, rows: Sequence[Row]) -> Iterator[Verdict]:
    """A tenant's limit and a global one may share name and scope; the store gives the global ones last, as we do."""
    left = list(rows)
    texts = _scope_texts(explanation.endpoint)
    for explained in explanation.limits:
        effective = explained.effective
        wanted = effective.limit.name, texts.get(effective.scope)
        row = next((row for row in left if (row.name, row.scope) == wanted), None)
        if row is not None:
            left.remove(row)
        yield Verdict(explained, row)


def _scope_texts(endpoint: str) -> dict[str, str]:
    """As records spell them."""
    texts = {EVERYWHERE: "0"}
    number = Endpoint.objects.filter(name=endpoint, retired=False).values_list("number", flat=True).first()
    if number is not None:
        service = endpoint.partition(":")[0]
        texts |= {endpoint: endpoint_number(number), f"{service}:*": f"@{service}"}
    return texts
