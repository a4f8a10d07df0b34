"""Fitting the probes: multinomial logistic regression and ridge regression, the penalty chosen on the dev words."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve

from polarlens.probing.representations import Features
from polarlens.probing.words import Array

CLASS_PENALTIES = (1e-2, 1e-3, 1e-4)  # per training word, strongest first
RIDGE_PENALTIES = tuple(10.0**k for k in range(2, -5, -1))
MAX_ITERATIONS = 100


@dataclass(frozen=True)
class Classifier:
    """A fitted classifier. penalty: as chosen; converged: whether every fit that led to it did."""

    weights: npt.NDArray[np.float32]  # (classes, k + 1), the constant last
    classes: npt.NDArray[np.object_]
    penalty: float
    converged: bool

    def predict(self, x: Features) -> npt.NDArray[np.object_]:
        """(N,) labels."""
        return self.classes[(x @ self.weights[:, :-1].T + self.weights[:, -1]).argmax(axis=1)]


def classifier(
    x: Features,
    labels: npt.NDArray[np.object_],
    x_dev: Features,
    labels_dev: npt.NDArray[np.object_],
    penalties: tuple[float, ...] = CLASS_PENALTIES,
) -> Classifier:
    """Minimise mean cross-entropy + penalty / 2 · |weights|², from the strongest penalty on, each from the last.

    The penalty with the best dev accuracy is kept (of equals the strongest); the path ends where it falls.
    """
    from sklearn.linear_model import LogisticRegression

    classes, codes = np.unique(labels.astype(str), return_inverse=True)
    dev = labels_dev.astype(str)
    model: Any = LogisticRegression(solver="lbfgs", tol=1e-3, max_iter=MAX_ITERATIONS, warm_start=True)
    best, best_accuracy, converged = None, -1.0, True
    for penalty in penalties:
        model.set_params(C=1.0 / (penalty * len(codes)))
        model.fit(x, codes)
        converged &= bool(model.n_iter_.max() < MAX_ITERATIONS)
        weights = np.column_stack([model.coef_, model.intercept_]).astype(np.float32)
        if len(classes) == 2:  # one row of log-odds
            weights = np.concatenate([np.zeros_like(weights), weights])
        found = Classifier(weights, classes.astype(object), penalty, converged)
        accuracy = float((found.predict(x_dev) == dev).mean()) if len(dev) else 0.0
        if accuracy > best_accuracy:
            best, best_accuracy = found, accuracy
        elif accuracy < best_accuracy:
            break
    assert best is not None
    return best


@dataclass(frozen=True)
class Regression:
    """c @ confounds + x @ weights; `c` and `x` as in `Ridge`, c cut to the columns that were used."""

    confounds: Array
    weights: Array
    penalty: float | None

    def predict(self, c: Array, x: Features | None) -> Array:
        """(N,) predictions; x None: from the confounds alone."""
        base = c[:, : len(self.confounds)] @ self.confounds
        return base if x is None else base + x @ self.weights


class Ridge:
    """Least squares of y on confounds, left free, and features, penalised: every fit from one Gram matrix.

    c: (n, q) confounds, a constant first. x: (n, k) features. y: (n,).
    Minimised: |y - c g - x w|² / n + penalty · |w|². Eliminating g leaves (Gxx - Gxc Gcc⁺ Gcx + n·penalty·I) w = ....
    """

    def __init__(self, c: Array, x: Features, y: Array) -> None:
        self.n, self.q = c.shape
        z = np.concatenate([c, x.astype(np.float64)], axis=1)
        self.gram, self.moments = z.T @ z, z.T @ y

    def alone(self, used: int) -> Regression:
        """y on the first `used` confounds."""
        g = np.linalg.pinv(self.gram[:used, :used], rcond=1e-12, hermitian=True) @ self.moments[:used]
        return Regression(g, np.zeros(0), None)

    def path(self, used: int, penalties: tuple[float, ...]) -> list[Regression]:
        """One fit per penalty, with the first `used` confounds."""
        inverse = np.linalg.pinv(self.gram[:used, :used], rcond=1e-12, hermitian=True)
        cross = self.gram[:used, self.q :]
        left = self.gram[self.q :, self.q :] - cross.T @ inverse @ cross
        right = self.moments[self.q :] - cross.T @ inverse @ self.moments[:used]
        fits = []
        for penalty in penalties:
            w = solve(left + penalty * self.n * np.eye(len(left)), right, assume_a="pos")
            fits.append(Regression(inverse @ (self.moments[:used] - cross @ w), w, penalty))
        return fits


def chosen(fits: list[Regression], c: Array, x: Features, y: Array) -> Regression:
    """The fit with the least squared error on the dev words (of equals the first)."""
    return min(fits, key=lambda fit: float(((y - fit.predict(c, x)) ** 2).sum()))


@contextmanager
def fitting() -> Iterator[None]:
    """While open, linear algebra runs on the thread that calls it, so that sums have one order whatever the machine.

    A classifier that did not converge says so in `converged` and gives no warning. To be opened outside of threads,
    since filters of warnings belong to the process.
    """
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def majority(labels: npt.NDArray[np.object_]) -> object:
    """The most frequent label; of equals the first in order."""
    values, counts = np.unique(labels.astype(str), return_counts=True)
    return values[counts.argmax()]
