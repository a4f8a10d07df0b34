"""The state profile: participation ratio against closed forms, and all of it against a loop written by hand."""

import numpy as np
import pytest
import torch

from polarlens.data.items import Text
from polarlens.engine.encoding import encode_texts
from polarlens.models import LanguageModel
from polarlens.protocol.profile import participation_ratio, state_profile
from tiny import tiny, tiny_tokenizer

SENTENCES = (
    "The river runs through the old town and the valley.",
    "Some teachers have never seen these mountains, and they say so.",
    "The authors near the window were reading a long letter from the manager.",
)


def test_isotropic_states_use_every_direction() -> None:
    states = torch.randn(20_000, 16, generator=torch.Generator().manual_seed(0))
    assert participation_ratio(states) == pytest.approx(16 / (1 + 16 / 20_000), rel=0.005)
    wide = torch.randn(200, 3000, generator=torch.Generator().manual_seed(1))  # more channels than tokens
    assert participation_ratio(wide) == pytest.approx(3000 / (1 + 3000 / 200), rel=0.02)


def test_states_on_a_line_use_one_direction() -> None:
    line = torch.linspace(-1, 3, 40)[:, None] * torch.arange(1.0, 9.0) + 7
    assert participation_ratio(line) == pytest.approx(1, abs=1e-9)
    assert participation_ratio(torch.ones(5, 4)) is None
    assert participation_ratio(torch.randn(1, 4)) is None


def test_known_eigenvalues() -> None:
    axes = torch.diag(torch.tensor([4.0, 2.0, 1.0])).sqrt()
    states = torch.cat([axes, -axes]) + 100  # covariance diag(4, 2, 1) / 3, the mean does not count
    assert participation_ratio(states) == pytest.approx(49 / 21, rel=1e-5)


def test_one_sink_decides_and_is_left_out() -> None:
    states = torch.randn(2000, 16, generator=torch.Generator().manual_seed(0))
    states[3] = 0
    states[3, 0] = 3000
    assert participation_ratio(states) == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("batch_tokens", [1, 500])
def test_the_profile_against_a_loop(batch_tokens: int) -> None:
    hf, tokenizer = tiny("llama", seed=3), tiny_tokenizer()
    lm = LanguageModel(hf, tokenizer)
    texts = [Text(text, f"{n:016x}", f"{n}", "d", n) for n, text in enumerate(SENTENCES)]
    items = encode_texts(texts, tokenizer, 0, max_tokens=64, window=128).items
    found = state_profile(lm, items, has_bos=True, batch_tokens=batch_tokens)
    states: dict[int, list[np.ndarray]] = {0: [], 1: []}
    for text in SENTENCES:
        ids = torch.tensor([[0, *tokenizer(text, add_special_tokens=False).input_ids]])
        with torch.no_grad():
            hidden = hf(ids, output_hidden_states=True).hidden_states
        for block in range(2):  # the last one is given after the final norm
            states[block].append(hidden[block + 1][0, 1:].double().numpy())
    for block in range(2):
        every = np.concatenate(states[block])
        norms = np.sqrt((every**2).sum(1))
        eigenvalues = np.linalg.eigvalsh(np.cov(every.T))
        energy = np.sort((every**2).sum(0))[::-1]
        one = found[block]
        assert one["tokens"] == len(every)
        assert one["norm_median"] == pytest.approx(np.median(norms), rel=1e-5)
        assert one["sink_share"] == 0
        assert one["top5_channel_energy"] == pytest.approx(energy[:5].sum() / energy.sum(), rel=1e-5)
        assert one["participation_ratio"] == pytest.approx(eigenvalues.sum() ** 2 / (eigenvalues**2).sum(), rel=1e-4)
        assert one["participation_ratio_no_sinks"] == one["participation_ratio"]
