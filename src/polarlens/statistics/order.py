"""The rule of order by which a claim gets its status: the sign counts, not the size."""

import math
from collections.abc import Sequence

from polarlens.statistics.intervals import Estimate
from polarlens.statistics.kinds import ALPHA
from polarlens.statistics.multiplicity import holm

REFERENCE_DELTA = {"absolute": 5.0}  # where one delta stands for a grid; 0.1 in the other modes


def order_status(estimates: Sequence[Estimate], in_band: Sequence[bool], places: Sequence[str] = ()) -> tuple[str, str]:
    """(status, why) of a claim that states a positive sign.

    `replicates` when the stated sign holds in one comparison or more and the opposite in none, `contradicts` when the
    opposite holds in one or more and the stated one in none, or when every interval lies in the band of equivalence;
    otherwise `inconclusive`. Signs are tested at 0.025 one-sided after Holm over the comparisons.

    in_band: whether each interval lies in the band. places: names of the comparisons, such as `delta 0.1`.
    """
    positive = [i for i, p in enumerate(holm([e.p_above() for e in estimates])) if p is not None and p <= ALPHA]
    negative = [i for i, p in enumerate(holm([e.p_below() for e in estimates])) if p is not None and p <= ALPHA]
    n = len(estimates)

    def at(found: Sequence[int]) -> str:
        named = ", ".join(dict.fromkeys(places[i] for i in found)) if places else ""
        return (f"at {named} " if named else "") + f"({len(found)} of {n} comparisons)"

    if positive and not negative:
        why = f"the stated order holds {at(positive)}, the opposite nowhere; tested is the order, not the size"
        if all(in_band[i] for i in positive):
            why += ", which lies within the band of equivalence"
        return "replicates", why
    if negative and not positive:
        return "contradicts", f"the opposite order holds {at(negative)}, the stated one nowhere"
    if positive:
        return "inconclusive", f"the stated order holds {at(positive)} and the opposite {at(negative)}"
    if n and all(in_band):
        return "contradicts", "every interval lies in the band of equivalence"
    why = "; ".join(dict.fromkeys(e.why for e in estimates if e.why))
    return "inconclusive", why or f"neither order is established in {n} comparisons"


def reference_delta(deltas: Sequence[float], mode: str | None) -> float:
    """The delta that stands for a grid: the nearest to 0.1 (absolute: 5) on the log scale, the smaller of two."""
    wanted = REFERENCE_DELTA.get(mode or "", 0.1)
    return min(sorted(deltas), key=lambda delta: abs(math.log(delta / wanted)))
