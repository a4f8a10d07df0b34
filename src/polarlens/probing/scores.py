"""Scores as sums over sentences, so that a score and its sampling error can be had from rows without a model.

Every metric is a ratio of sums over the held-out sentences, sum(score) / sum(weight):

metric            score of a sentence, summed over its words                        weight
accuracy          1 for a word labelled right                                       words
selectivity       right, minus right on the control task                            words
r2                (y - mean y)² - (y - predicted)²                                  (y - mean y)²
gain, gain_upos   squared error of the confounds alone - with the representation    (y - mean y)²
spearman          rho + the word's influence on rho                                 words

mean y is over all held-out words, as in the usual R². It moves a ratio only in second order, and the influences of a
rank correlation sum to 0, so that values are exact and linearised errors are right to first order.
"""

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from polarlens.probing.words import Array, BoolArray

Sums = tuple[Array, Array]  # score and weight of each word


def right(correct: BoolArray) -> Sums:
    """Accuracy."""
    return correct.astype(np.float64), np.ones(len(correct))


def selective(correct: BoolArray, control: BoolArray) -> Sums:
    """Accuracy minus accuracy on the control task."""
    return correct.astype(np.float64) - control, np.ones(len(correct))


def r2(y: Array, predicted: Array) -> Sums:
    """Coefficient of determination."""
    spread = (y - y.mean()) ** 2
    return spread - (y - predicted) ** 2, spread


def gain(y: Array, without: Array, with_it: Array) -> Sums:
    """R² with the representation minus R² without it."""
    return (y - without) ** 2 - (y - with_it) ** 2, (y - y.mean()) ** 2


def spearman(y: Array, predicted: Array) -> Sums | None:
    """Rank correlation; None where either side does not vary."""
    found = rank_influence(y, predicted)
    return None if found is None else (found[0] + found[1], np.ones(len(y)))


def rank_influence(x: Array, y: Array) -> tuple[float, Array] | None:
    """Spearman's rho with midranks, and the influence (n,) of each observation on it; None where a side is constant.

    With U the mid-distribution function of x at each observation and V that of y, rho is their correlation. Adding mass
    at observation k moves U everywhere by h(x_k, ·) - U, h(a, b) = 1 for a < b and 1/2 for a = b.
    """
    n = len(x)
    if n < 2:
        return None
    u, v = (rankdata(x) - 0.5) / n, (rankdata(y) - 0.5) / n
    covariance, var_u, var_v = ((u * v).mean() - 0.25, (u * u).mean() - 0.25, (v * v).mean() - 0.25)
    if not (var_u > 1e-12 and var_v > 1e-12):
        return None
    rho = covariance / np.sqrt(var_u * var_v)
    d_covariance = u * v - 3 * (covariance + 0.25) + _mean_above(x, v) + _mean_above(y, u)
    d_u = u * u - 3 * (var_u + 0.25) + 2 * _mean_above(x, u)
    d_v = v * v - 3 * (var_v + 0.25) + 2 * _mean_above(y, v)
    return float(rho), d_covariance / np.sqrt(var_u * var_v) - rho / 2 * (d_u / var_u + d_v / var_v)


def _mean_above(x: Array, values: Array) -> Array:
    """(n,) for each k the mean over all i of h(x_k, x_i) · values_i."""
    _, code = np.unique(x, return_inverse=True)
    totals = np.bincount(code, weights=values)
    above = np.cumsum(totals[::-1])[::-1] - totals / 2  # half of its own group, all of the groups above
    out: npt.NDArray[np.float64] = above[code] / len(x)
    return out
