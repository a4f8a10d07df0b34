"""Rows -> summary: damages per item, clustered intervals, contrasts of the arms, verdict and claims.

The modules in the order data flows: `damage` (rows -> damages per item), `intervals`, `ratio`, `bootstrap` and
`multiplicity` (the mathematics), `recovery`, `shapley` and `amplification` (what repair and propagation add to it),
`estimates` (damages -> moments), `floors`, `cells`, `contrasts`, `kinds` and `verdict`, `order`, `published` and
`claims` with `claims_given` and `published_numbers`, `baseline`, `notices`, and `summary`, which puts them together.
Other experiments: `repairs`, `travels`, `curvature`, `audit` with `effects` and `audit_words`; `precision` says when
to stop. Several runs: `comparable`, `pairing`, `comparison`, `claims_across`, and `across`, which puts these together.
"""

from polarlens.statistics.floors import unigram_cross_entropy
from polarlens.statistics.kinds import Bands
from polarlens.statistics.summary import summarise

__all__ = ["Bands", "summarise", "unigram_cross_entropy"]
