"""Fits against scikit-learn and least squares with explicit penalty rows; scores against scikit-learn and scipy."""

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.linear_model import LogisticRegression
from sklearn.linear_model import Ridge as SkRidge
from sklearn.metrics import r2_score

from polarlens.probing import scores
from polarlens.probing.fits import Ridge, chosen, classifier, majority
from polarlens.probing.representations import REPRESENTATIONS, Entered
from polarlens.probing.split import split


@pytest.fixture
def data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    g = np.random.default_rng(0)
    c = np.column_stack([np.ones(400), g.integers(0, 3, 400)[:, None] == np.arange(3), g.standard_normal(400)])
    x = (g.standard_normal((400, 7)) + c[:, 4:]).astype(np.float32)
    y = x @ g.standard_normal(7) + 2 * c[:, 4] + 3 * c[:, 1] + g.standard_normal(400)
    return c, x, y


@pytest.mark.parametrize("penalty", [1e-4, 0.1, 10.0])
def test_ridge_with_a_constant_is_scikit_learns(data: tuple[np.ndarray, ...], penalty: float) -> None:
    c, x, y = data
    (fit,) = Ridge(c, x, y).path(1, (penalty,))
    reference = SkRidge(alpha=penalty * len(y)).fit(x.astype(float), y)
    np.testing.assert_allclose(fit.predict(c, x), reference.predict(x.astype(float)), rtol=1e-8)


def test_confounds_are_not_penalised(data: tuple[np.ndarray, ...]) -> None:
    """The same minimum as least squares with one row sqrt(n penalty) per penalised weight; c is rank deficient."""
    c, x, y = data
    root = np.sqrt(0.5 * len(y))
    a = np.block([[c, x], [np.zeros((7, c.shape[1])), root * np.eye(7)]])
    solution, *_ = np.linalg.lstsq(a, np.concatenate([y, np.zeros(7)]), rcond=None)
    (fit,) = Ridge(c, x, y).path(c.shape[1], (0.5,))
    np.testing.assert_allclose(fit.predict(c, x), np.hstack([c, x]) @ solution, rtol=1e-8)
    alone = np.linalg.lstsq(c, y, rcond=None)[0]
    np.testing.assert_allclose(Ridge(c, x, y).alone(c.shape[1]).predict(c, None), c @ alone, rtol=1e-8)


def test_the_dev_words_choose_the_penalty(data: tuple[np.ndarray, ...]) -> None:
    c, x, y = data
    fits = Ridge(c[:200], x[:200], y[:200]).path(1, (100.0, 1e-4))
    assert chosen(fits, c[200:], x[200:], y[200:]).penalty == 1e-4
    assert chosen(fits, c[200:], x[200:], fits[0].predict(c[200:], x[200:])).penalty == 100.0


@pytest.mark.parametrize("k", [2, 4])
def test_classifier_reaches_the_minimum(k: int) -> None:
    g = np.random.default_rng(1)
    x = g.standard_normal((600, 5)).astype(np.float32)
    y = np.array([f"t{i}" for i in (x @ g.standard_normal((5, k)) + g.gumbel(size=(600, k))).argmax(1)], dtype=object)
    found = classifier(x[:400], y[:400], x[400:], y[400:], (1e-2, 1e-3))
    reference = LogisticRegression(C=1 / (found.penalty * 400), tol=1e-8, max_iter=5000).fit(
        x[:400].astype(float), y[:400].astype(str)
    )
    assert found.converged
    agree = (found.predict(x[400:]) == reference.predict(x[400:].astype(float))).mean()
    assert agree >= 0.99
    assert set(found.classes) == set(y)


def test_majority_and_labels_unseen_in_training() -> None:
    y = np.array(["b", "a", "b", "c"], dtype=object)
    assert majority(y) == "b"
    x = np.eye(4, dtype=np.float32)
    found = classifier(x, y, x[:1], np.array(["unseen"], dtype=object))
    assert "unseen" not in found.predict(x)


def test_numbers_enter_as_bins_from_the_training_values_alone() -> None:
    train = np.arange(1000.0)[:, None]
    entered = Entered.fitted(train, binned=True)
    x = entered(train)
    assert x.shape == (1000, 21)
    np.testing.assert_allclose(x.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(x.std(0), 1, atol=1e-4)
    bins = x[:, 1:].argmax(1)
    assert np.bincount(bins).tolist() == [50] * 20
    far = entered(np.array([[-1e9], [1e9]]))[:, 1:].argmax(1)
    assert far.tolist() == [0, 19]
    flat = Entered.fitted(np.full((10, 2), 3.3), binned=False)
    assert np.abs(flat(np.full((2, 2), 3.3))).max() < 1e-5


def test_representations() -> None:
    g = np.random.default_rng(2)
    states = g.standard_normal((50, 8)) * g.uniform(1, 9, (50, 1))
    profile = np.column_stack([g.uniform(size=50), np.linalg.norm(states, axis=1)])
    of = {name: r.of(states, profile) for name, r in REPRESENTATIONS.items()}
    scaled = {name: r.of(3 * states, 3 * profile) for name, r in REPRESENTATIONS.items()}
    np.testing.assert_allclose(np.linalg.norm(of["direction"], axis=1), 1)
    for name in ("direction", "random-1d"):
        np.testing.assert_allclose(of[name], scaled[name])
    for name in ("norm", "full", "norm-profile"):
        np.testing.assert_allclose(3 * of[name], scaled[name])
    assert {name: v.shape[1] for name, v in of.items()} == {
        "direction": 8, "norm": 1, "full": 8, "norm-profile": 2, "random-1d": 1,
    }  # fmt: skip
    assert np.linalg.lstsq(of["direction"], of["random-1d"], rcond=None)[1].sum() < 1e-20  # a projection of it


def test_split_by_cluster_whatever_the_order() -> None:
    clusters = [f"c{i // 2}" for i in range(200)]
    parts = split(clusters)
    assert {name: int(p.sum()) for name, p in parts.items()} == {"train": 120, "dev": 40, "test": 40}
    assert (sum(p.astype(int) for p in parts.values()) == 1).all()
    for p in parts.values():
        assert (p[::2] == p[1::2]).all()
    back = split(clusters[::-1])
    assert all((back[name][::-1] == parts[name]).all() for name in parts)


def total(sums: scores.Sums | None) -> float:
    assert sums is not None
    return float(sums[0].sum() / sums[1].sum())


def test_scores_are_the_usual_ones() -> None:
    g = np.random.default_rng(3)
    y = g.integers(0, 6, 300).astype(float)
    a, b = y + g.standard_normal(300), y / 2 + g.standard_normal(300)
    assert total(scores.r2(y, a)) == pytest.approx(r2_score(y, a), abs=1e-12)
    assert total(scores.gain(y, b, a)) == pytest.approx(r2_score(y, a) - r2_score(y, b), abs=1e-12)
    assert total(scores.spearman(y, a)) == pytest.approx(spearmanr(y, a).statistic, abs=1e-12)
    right, control = y > 2, y > 3
    assert total(scores.right(right)) == right.mean()
    assert total(scores.selective(right, control)) == pytest.approx(right.mean() - control.mean())
    assert scores.spearman(y, np.ones(300)) is None
    assert scores.spearman(y[:1], a[:1]) is None


def test_gain_by_hand() -> None:
    y = np.array([0.0, 1.0, 2.0])  # spread 2
    score, weight = scores.gain(y, np.array([1.0, 1.0, 1.0]), np.array([0.0, 1.0, 1.0]))
    assert score.tolist() == [1.0, 0.0, 0.0]
    assert score.sum() / weight.sum() == 0.5


def test_influences_on_a_rank_correlation_are_the_jackknifes() -> None:
    g = np.random.default_rng(4)
    n = 400
    x = g.integers(0, 5, n).astype(float)  # many ties, as in depth
    y = x + 2 * g.standard_normal(n)
    found = scores.rank_influence(x, y)
    assert found is not None
    rho, influence = found
    keep = ~np.eye(n, dtype=bool)
    jackknife = (n - 1) * (rho - np.array([spearmanr(x[k], y[k]).statistic for k in keep]))
    assert influence.sum() == pytest.approx(0, abs=1e-9)
    assert np.abs(influence - jackknife).max() < 0.03
    assert influence.std() == pytest.approx(jackknife.std(), rel=0.01)
