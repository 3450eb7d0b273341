"""Where the time of a delivery goes, hop by hop, and where the slowest of them lost it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from itertools import pairwise
from typing import Any

from tests.bench.result import percentiles


@dataclass(frozen=True)
class Trace:
    """Moments of one event, in milliseconds since 1970, in the order in which it passes them.

    due: intended send time · accepted: the API's stamp · kafka: record on the change topic · notice: first record of the
    pair on the notices topic · consumed: read by egress · committed: delivery row in PostgreSQL · sent: first attempt
    begins · webhook: at the receiver. Kafka's times are the producers' and in whole milliseconds, so that a hop
    that begins or ends there can be off by one. The API's stamp comes before the body is parsed.
    """

    due: float
    accepted: float
    kafka: float
    notice: float
    consumed: float
    committed: float
    sent: float
    webhook: float

    @property
    def total(self) -> float:
        return self.webhook - self.due

    def hops(self) -> dict[str, float]:
        return dict(zip(HOPS, (after - before for before, after in pairwise(astuple(self))), strict=True))


HOPS = tuple(f"{before.name}_to_{after.name}" for before, after in pairwise(fields(Trace)))


def breakdown(traces: Sequence[Trace]) -> dict[str, Any]:
    """Percentiles of each hop."""
    hops = [trace.hops() for trace in traces]
    return {name: percentiles([hop[name] for hop in hops]) for name in HOPS}


def tail(traces: Sequence[Trace]) -> dict[str, Any]:
    """Of the slowest hundredth (at least ten): mean time by hop beyond the hop's own median, worst hop first."""
    if not traces:
        return {}
    slowest = sorted(traces, key=lambda trace: trace.total)[-max(10, len(traces) // 100) :]
    everyone = [trace.hops() for trace in traces]
    middle: Mapping[str, float] = {name: percentiles([hop[name] for hop in everyone])["p50"] for name in HOPS}
    excess = {
        name: round(sum(trace.hops()[name] - middle[name] for trace in slowest) / len(slowest), 1)
        for name in HOPS
    }
    ranked = dict(sorted(excess.items(), key=lambda item: -item[1]))
    stalls = _stalls([trace.due for trace in slowest])
    return {"of": len(slowest), "excess_ms_by_hop": ranked, "moments_apart": stalls}


def _stalls(moments: Sequence[float], together_ms: float = 500) -> int:
    """How many separate moments the slow ones fall into: few means stalls that hit all at once, many a wide spread."""
    ordered = sorted(moments)
    return 1 + sum(later - earlier > together_ms for earlier, later in pairwise(ordered))
