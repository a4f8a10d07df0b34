"""Rows -> summary: damages per item, clustered intervals, contrasts of the arms, verdict and claims.

The modules in the order data flows: `damage` (rows -> damages per item), `intervals`, `ratio`, `bootstrap` and
`multiplicity` (the mathematics), `estimates` (damages -> moments), `floors`, `cells`, `contrasts`, `kinds` and
`verdict`, `order`, `published` and `claims` with `claims_given`, `baseline`, `notices`, and `summary`, which puts
them together. Beside it: `precision` (when to stop), `curvature`, `audit` with `effects` and `audit_words`, and
`claims_across` (claims that need several models).
"""

from polarlens.statistics.floors import unigram_cross_entropy
from polarlens.statistics.kinds import Bands
from polarlens.statistics.summary import summarise

__all__ = ["Bands", "summarise", "unigram_cross_entropy"]
