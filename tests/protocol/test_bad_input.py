"""Bad models, data and options through the real command: exit status, one message that says where, nothing written."""

import json
from pathlib import Path

import pytest
import torch
from transformers import BertConfig, BertModel

from polarlens.cli.main import main
from tiny import save_tiny


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a good model and data, and many bad ones."""
    root = tmp_path_factory.mktemp("bad")
    save_tiny(root / "good", "gpt_neox")
    save_tiny(root / "no-tokenizer", "gpt_neox", tokenizer=False)
    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    BertModel(BertConfig(**small)).save_pretrained(root / "bert")
    (root / "empty-model").mkdir()
    (root / "model.gguf").write_bytes(b"this is no GGUF")
    broken = save_tiny(root / "nan", "gpt_neox")
    from safetensors.torch import load_file, save_file

    tensors = load_file(broken / "model.safetensors")
    name = sorted(tensors)[0]
    tensors[name] = torch.full_like(tensors[name], float("nan"))
    save_file(tensors, broken / "model.safetensors", metadata={"format": "pt"})
    files = {
        "t.txt": "The river runs through the old town.\nA letter came from the manager.\n",
        "long.txt": "many words " * 100,
        "blank.txt": "\n\n  \n",
        "empty.txt": "",
        "one.txt": "x\n",
        "bytes.txt": b"fine\nnot \xff utf-8\n",
        "p.jsonl": json.dumps({"good": "The cats sleep.", "bad": "The cats sleeps."}),
        "json.jsonl": '{"good": "A b.", "bad": "A c."}\n{"good": oops}\n',
        "fields.jsonl": '{"good": "A b.", "wrong": "A c."}\n',
        "same.jsonl": '{"good": "A b.", "bad": "A b."}\n',
        "first.jsonl": '{"good": "a b", "bad": "c b"}\n',
        "columns.csv": "good,worse\na,b\n",
        "bad.yaml": "seeds: 2\ndeltas: [0.1]\n",
        "code.yaml": "out: !!python/object/apply:os.system ['true']\n",
    }
    for file, content in files.items():
        (root / file).write_bytes(content if isinstance(content, bytes) else content.encode())
    return root


GOOD = ["good", "--text", "t.txt", "--pairs", "p.jsonl"]
CASES = [
    (["missing-model", *GOOD[1:]], 2, "missing-model"),
    (["empty-model", *GOOD[1:]], 2, "empty-model"),
    (["model.gguf", *GOOD[1:]], 2, "model.gguf"),
    (["owner/not-here", *GOOD[1:]], 2, "owner/not-here"),
    (["bert", *GOOD[1:]], 3, "bert"),
    (["nan", *GOOD[1:]], 3, "nan"),
    (["no-tokenizer", *GOOD[1:]], 3, "tokenizer"),
    (["good", "--text", "absent.txt"], 2, "absent.txt"),
    (["good", "--text", "blank.txt"], 2, "blank.txt"),
    (["good", "--text", "empty.txt"], 2, "empty.txt"),
    (["good", "--text", "one.txt"], 2, "one.txt"),
    (["good", "--text", "bytes.txt"], 2, "line 2"),
    (["good", "--text", "."], 2, "folder"),
    (["good", "--pairs", "json.jsonl"], 2, "json.jsonl, line 2"),
    (["good", "--pairs", "fields.jsonl"], 2, "fields.jsonl, line 1"),
    (["good", "--pairs", "same.jsonl"], 2, "same.jsonl, line 1"),
    (["good", "--pairs", "first.jsonl", "--bos", "none"], 2, "first.jsonl, line 1"),
    (["good", "--pairs", "columns.csv"], 2, "columns.csv"),
    (["good", "--pairs", "p.jsonl", "--pairs", "p.jsonl"], 2, "p.jsonl"),
    (["good"], 2, "--text"),
    (["good", "--text", "hub:owner/name:config:test"], 2, "hub:owner/name"),
    ([*GOOD, "--layers", "3"], 2, "0 to 2"),
    ([*GOOD, "--layers", "2-1"], 2, "backwards"),
    ([*GOOD, "--delta", "-0.1"], 2, "delta"),
    ([*GOOD, "--delta", "nan"], 2, "delta"),
    ([*GOOD, "--delta", "0"], 2, "delta"),
    ([*GOOD, "--delta", "1.5"], 2, "delta"),
    ([*GOOD, "--seeds", "0"], 2, "seeds"),
    ([*GOOD, "--bos", "<nothing>"], 2, "<nothing>"),
    (["good", "--text", "long.txt", "--max-tokens", "500"], 2, "long.txt, line 1"),
    ([*GOOD, "--sedes", "3"], 2, "--seeds"),
    ([*GOOD, "--config", "bad.yaml"], 2, "delta"),
    ([*GOOD, "--config", "code.yaml"], 2, "code.yaml"),
    ([*GOOD, "--experiments", "probing"], 2, "probing"),
    ([*GOOD, "--repair", "atention"], 2, "attention"),
    ([*GOOD, "--repair-layers", "0"], 2, "nothing can differ"),
    ([*GOOD, "--layers", "2", "--repair", "mlp"], 2, "nothing can differ"),
    ([*GOOD, "--repair-layers", "7"], 2, "0 to 2"),
    ([*GOOD, "--experiments", "sweeps"], 2, "sweep"),
]


@pytest.mark.parametrize(("arguments", "status", "named"), CASES, ids=[" ".join(case[0]) for case in CASES])
def test_one_message_and_nothing_written(place, monkeypatch, capfd, arguments, status, named):
    monkeypatch.chdir(place)
    before = sorted(p.relative_to(place) for p in place.rglob("*"))
    assert main(["run", *arguments, "--out", "out", "--quiet"]) == status
    out, err = capfd.readouterr()
    assert out == ""
    assert "Traceback" not in err
    assert err.startswith("polarlens: ")
    assert err.count("\n") == 1
    assert named in err
    assert sorted(p.relative_to(place) for p in place.rglob("*")) == before
