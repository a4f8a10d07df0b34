"""Which sentences train a probe, which choose its regularisation, and which are held out."""

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

SHARES = {"train": 0.6, "dev": 0.2, "test": 0.2}


def split(clusters: Sequence[str]) -> dict[str, npt.NDArray[np.bool_]]:
    """Part -> (S,) bool over sentences.

    clusters: of each sentence; sentences of one cluster (exact repeats) stay together. The clusters are ordered by a
    digest of their names and cut at 60 and 80 %, so that neither the order of the sentences nor chance decides.
    """
    ordered = sorted(set(clusters), key=lambda name: hashlib.sha256(f"probe\0{name}".encode()).digest())
    rank = {name: index for index, name in enumerate(ordered)}
    at = np.array([rank[name] for name in clusters]) + 0.5
    ends = np.cumsum([share * len(ordered) for share in SHARES.values()])
    part = np.searchsorted(ends, at, "left")
    return {name: part == index for index, name in enumerate(SHARES)}
