"""A real treebank and a real model: what can be read at a middle block."""

from pathlib import Path

import pytest

from polarlens.data.read import read_trees
from polarlens.models import LanguageModel, resolve_bos
from polarlens.probing import align_trees, probe
from polarlens.statistics.probing import probe_scores, probing_entries


@pytest.mark.full
@pytest.mark.smollm2
def test_parts_of_speech_are_in_the_direction(smollm2: LanguageModel, shared_data: Path) -> None:
    trees = read_trees([str(shared_data / "ud" / "en_ewt-ud-test.conllu")], limit=400).items
    bos = resolve_bos(smollm2.tokenizer, "auto").id
    aligned = align_trees(trees, smollm2.tokenizer, bos, window=smollm2.window)
    assert (len(aligned.items), aligned.unaligned) == (400, 0)
    rows = probe(smollm2, aligned, has_bos=True, blocks=(smollm2.n_layers // 2,), poolings=("last",)).clean()
    accuracy = {
        str(s.named["representation"]): (s.found.estimate.value or 0.0, s.found.interval)
        for s in probe_scores(rows)
        if s.named["metric"] == "accuracy"
    }
    print(accuracy, probing_entries(rows.assign(task=None), {}).given)
    assert accuracy["direction"][0] > 85
    assert abs(accuracy["norm"][0] - accuracy["majority"][0]) < 15
