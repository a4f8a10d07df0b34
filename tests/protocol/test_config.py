from pathlib import Path
from typing import Any

import pytest

from polarlens.errors import UsageError
from polarlens.protocol.config import (
    RunConfig,
    Sources,
    grid,
    resolved,
    run_name,
    sources,
)
from polarlens.protocol.config_file import configure, read_settings

HUB_TEXT = "hub:Salesforce/wikitext:wikitext-103-raw-v1:test"
HUB_PAIRS = (
    "hub:nyu-mll/blimp:regular_plural_subject_verb_agreement_1",
    "hub:nyu-mll/blimp:irregular_plural_subject_verb_agreement_1",
)
RATIOS = (0.02, 0.05, 0.1, 0.2, 0.5)


@pytest.mark.parametrize(
    ("given", "mode", "text_grid", "pair_grid"),
    [
        ({}, "relative", RATIOS, RATIOS),
        ({"delta_mode": "site"}, "site", RATIOS, RATIOS),
        ({"delta_mode": "absolute"}, "absolute", (1, 2, 5, 10, 15, 20), (5, 10, 15)),
        ({"preset": "paper"}, "absolute", (1, 2, 5, 10, 15, 20), (5, 10, 15)),
        ({"preset": "notebook"}, "absolute", (1, 2, 5, 10, 15, 20), (5, 10, 15)),
        ({"preset": "paper", "delta_mode": "relative"}, "relative", RATIOS, RATIOS),
        ({"preset": "paper", "delta": "3,1"}, "absolute", (1, 3), (1, 3)),
        ({"delta": [0, 0.3]}, "relative", (0.3,), (0.3,)),
    ],
)
def test_delta_mode_and_grids(given: dict[str, Any], mode: str, text_grid: Any, pair_grid: Any) -> None:
    for config in (RunConfig(**given), resolved(RunConfig(**given))):
        assert grid(config, "loss") == text_grid
        assert grid(config, "pairs") == pair_grid
    assert resolved(RunConfig(**given)).delta_mode == mode


def test_presets_fill_what_was_not_given() -> None:
    matched = resolved(RunConfig(text="a.txt"))
    assert (matched.bos, matched.positions, matched.text_filter) == ("auto", ("all", "no-sinks"), "none")
    assert (matched.seeds, matched.max_tokens, matched.layers, matched.allow_mismatch) == (5, 64, "middle", False)
    assert matched.experiments == ("sweep", "repair", "propagation")
    paper = resolved(RunConfig(preset="paper", text="a.txt"))
    assert (paper.bos, paper.positions, paper.text_filter, paper.allow_mismatch) == ("auto", ("all",), "none", False)
    notebook = resolved(RunConfig(preset="notebook", text="a.txt"))
    assert (notebook.bos, notebook.positions, notebook.text_filter) == ("none", ("all",), "notebook")
    assert notebook.allow_mismatch is True


def test_what_was_given_wins_over_the_preset() -> None:
    given = {"bos": "<s>", "positions": "no-first", "text_filter": "none", "allow_mismatch": False, "out": "here"}
    config = resolved(RunConfig(preset="notebook", **given))
    assert (config.bos, config.positions, config.text_filter) == ("<s>", ("no-first",), "none")
    assert (config.allow_mismatch, config.out) == (False, Path("here"))


def test_without_data_the_published_sets_are_read() -> None:
    assert sources(RunConfig()) == Sources(HUB_TEXT, None, HUB_PAIRS, 100)
    assert sources(RunConfig(limit=7)) == Sources(HUB_TEXT, 7, HUB_PAIRS, 7)
    assert resolved(RunConfig()).text_filter == "notebook"
    assert sources(RunConfig(text="a.txt")) == Sources("a.txt", None, (), None)
    assert sources(RunConfig(pairs=["a.jsonl", "b, c.jsonl"], limit=3)) == Sources(
        None, 3, ("a.jsonl", "b, c.jsonl"), 3
    )


@pytest.mark.parametrize(
    ("key", "values", "read"),
    [
        ("delta", ["0.02,0.05", "0.05, 0.02", [0.02, 0.05], ["0.02", "5e-2"], (0.05, 0.02)], (0.02, 0.05)),
        ("delta", ["0.1", 0.1, [0.1], "0,0.1", "-0.0,0.1"], (0.1,)),
        ("seeds", ["3", 3, " 3 ", "+3"], 3),
        ("layers", ["4,6", [4, 6], ["4", "6"]], "4,6"),
        ("layers", [8, "8"], "8"),
        ("experiments", ["sweep", ["sweep"]], ("sweep",)),
        ("positions", ["all,no-sinks", ["all", "no-sinks"]], ("all", "no-sinks")),
        ("pairs", ["a.jsonl", ["a.jsonl"], Path("a.jsonl")], ("a.jsonl",)),
        ("text", ["a.txt", Path("a.txt")], "a.txt"),
        ("out", ["runs/x", Path("runs/x")], Path("runs/x")),
        ("models", ["m", ["m"]], ("m",)),
        ("models", [["a/b", "m"]], ("a/b", "m")),
        ("device", ["cuda:1"], "cuda:1"),
    ],
)
def test_text_and_yaml_values_read_alike(key: str, values: list[Any], read: Any) -> None:
    for value in values:
        assert getattr(RunConfig(**{key: value}), key) == read


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("delta", "-1", "-1 is not a displacement"),
        ("delta", "0.1,nan", "nan is not a displacement"),
        ("delta", [0.1, float("inf")], "inf is not a displacement"),
        ("delta", "1e400", "inf is not a displacement"),
        ("delta", "0.1,0.10", "0.1 is named twice"),
        ("delta", "0", "0 alone"),
        ("delta", [], "empty"),
        ("delta", "", "'' is not a number"),
        ("delta", "0.1,", "'' is not a number"),
        ("delta", "0.1;[red]{x}", "'0.1;[red]{x}' is not a number"),
        ("delta", True, "True is not a number"),
        ("delta", {"a": 1}, "{'a': 1} is not a number"),
        ("delta", "0.5,1", "1 is no relative displacement"),
        ("seeds", 0, "0 is too small; the least is 1"),
        ("seeds", True, "True is not a whole number"),
        ("seeds", "5.5", "'5.5' is not a whole number"),
        ("seeds", 5.0, "5.0 is not a whole number"),
        ("seeds", "1_0", "is not a whole number"),
        ("seeds", "9" * 5000, "is not a whole number"),
        ("limit", "0", "too small"),
        ("max_tokens", "1", "the least is 2"),
        ("batch_tokens", -1, "too small"),
        ("treebank_limit", "49", "49 is too small; the least is 50"),
        ("treebank", ["a.conllu"], "is not a name"),
        ("layers", "15-8", "Write 8-15"),
        ("layers", True, "does not name blocks"),
        ("layers", [], "names no block"),
        ("preset", "papr", "'matched', 'paper' or 'notebook'"),
        ("delta_mode", "rel", "'relative', 'absolute' or 'site'"),
        ("experiments", "sweep,swep", "'swep' is not one of"),
        ("experiments", "sweep,sweep", "sweep is named twice"),
        ("positions", "first", "'first' is not one of"),
        ("device", "gpu", "choose cpu"),
        ("dtype", "int8", "'int8' is not one of"),
        ("bos", False, "put it in quotes"),
        ("out", "", "'' is not a name"),
        ("text", ["a.txt"], "is not a name"),
        ("pairs", ["a", "a"], "a is named twice"),
        ("overwrite", "yes", "neither true nor false"),
        ("models", ["a", "a"], "a is named twice"),
        ("ci_width", 0, "must lie above 0"),
        ("ci_width", -0.1, "must lie above 0"),
        ("ci_width", "nan", "finite number"),
        ("ci_width", "inf", "finite number"),
        ("ci_width", "narrow", "is not a number"),
    ],
)
def test_bad_values_are_refused_by_name(key: str, value: Any, said: str) -> None:
    with pytest.raises(UsageError, match=f"^{key}: ") as caught:
        RunConfig(**{key: value})
    assert said in str(caught.value)


@pytest.mark.parametrize(("key", "nearest"), [("lyers", "layers"), ("delta_modes", "delta_mode"), ("sead", "seeds")])
def test_unknown_keys_name_the_nearest_known_one(key: str, nearest: str) -> None:
    with pytest.raises(UsageError, match=f"^{key}: this key is not known.*{nearest}"):
        RunConfig(**{key: 1})


@pytest.mark.parametrize(
    ("asked", "fix"),
    [({"experiments": "repair"}, "Ask for the sweep"), ({"pairs": ["p.jsonl"]}, "Give texts")],
)
def test_a_precision_needs_a_loss_ratio(asked: dict[str, Any], fix: str) -> None:
    with pytest.raises(UsageError, match=f"^ci_width: .*none is measured. {fix}"):
        RunConfig(ci_width=0.1, **asked)
    assert RunConfig(ci_width="0.1", experiments="sweep,repair", text="t.txt", pairs="p.jsonl").ci_width == 0.1


def test_a_relative_displacement_of_one_is_fine_in_the_other_modes() -> None:
    assert RunConfig(delta="1", delta_mode="absolute").delta == (1.0,)
    assert RunConfig(delta="1", delta_mode="site").delta == (1.0,)
    assert RunConfig(delta="1", preset="paper").delta == (1.0,)


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("EleutherAI/pythia-410m", "EleutherAI--pythia-410m"),
        ("EleutherAI/pythia-410m@step1000", "EleutherAI--pythia-410m@step1000"),
        ("models/SmolLM2.Q4_1.gguf", "SmolLM2.Q4_1"),
        ("gpt2", "gpt2"),
        ("a/b:c d", "a--b-c-d"),
    ],
)
def test_folder_names_of_models(model: str, name: str) -> None:
    assert run_name(model) == name
    assert resolved(RunConfig(models=model)).out == Path("polarlens-runs") / name


def test_several_models_share_a_folder_named_after_all_of_them() -> None:
    assert resolved(RunConfig(models=["a/b", "gpt2"])).out == Path("polarlens-runs/a--b+gpt2")
    many = resolved(RunConfig(models=[f"owner/model-{k}" for k in range(50)])).out
    assert many is not None
    assert len(many.name) <= 100


def test_a_directory_is_named_by_its_last_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my model").mkdir()
    assert run_name(str(tmp_path / "my model") + "/") == "my model"
    monkeypatch.chdir(tmp_path / "my model")
    assert run_name(".") == "my model"
    assert resolved(RunConfig(models=".")).out == Path("polarlens-runs/my model")


def written(folder: Path, content: str | bytes) -> Path:
    file = folder / "settings.yaml"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


def test_a_file_gives_values_and_the_command_line_wins(tmp_path: Path) -> None:
    file = written(
        tmp_path, "models: gpt2\nmax-tokens: 32\ndelta_mode: absolute\ndelta: [1, 2]\nlayers: 4,6\nseeds:\nbos: none\n"
    )
    config = configure({"delta": "7", "seeds": None, "overwrite": True}, file)
    assert (config.models, config.max_tokens, config.delta, config.layers) == (("gpt2",), 32, (7.0,), "4,6")
    assert (config.seeds, config.bos, config.overwrite) == (5, "none", True)


def test_errors_say_whether_the_option_or_the_file_is_wrong(tmp_path: Path) -> None:
    file = written(tmp_path, "max-tokens: 1\n")
    with pytest.raises(UsageError, match=r"settings\.yaml, key max_tokens: 1 is too small"):
        configure({}, file)
    with pytest.raises(UsageError, match=r"^--max-tokens: 0 is too small"):
        configure({"max_tokens": "0"}, file)
    with pytest.raises(UsageError, match=r"settings\.yaml, key lyers: this key is not known.*layers"):
        configure({}, written(tmp_path, "lyers: 3\n"))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("seeds: 3\nlimit: 2\nseeds: 4\n", ":3: .*the key seeds is given twice"),
        ("max-tokens: 3\nmax_tokens: 4\n", "max_tokens: this key is given twice"),
        ("seeds: !!python/object/apply:os.system ['touch ran']\n", ":1: .*could not determine a constructor"),
        ("seeds: !!python/name:os.system\n", ":1: .*could not determine a constructor"),
        ("seeds: [1\n", "not usable YAML"),
        ("\tseeds: 1\n", ":1: .*not usable YAML"),
        ("- seeds\n", "holds no keys"),
        ("just words\n", "holds no keys"),
        (b"\xff\xfe\x00\x81", "UTF-8"),
        ("seeds: " + "[" * 1500, "nested too deeply|not usable YAML"),
    ],
)
def test_bad_files_are_refused_with_the_line(
    tmp_path: Path, content: str | bytes, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=rf"settings\.yaml.*{said}"):
        read_settings(written(tmp_path, content))
    assert [file.name for file in tmp_path.iterdir()] == ["settings.yaml"]


def test_missing_files_and_folders_are_refused(tmp_path: Path) -> None:
    for file in (tmp_path / "none.yaml", tmp_path):
        with pytest.raises(UsageError, match="cannot be read"):
            read_settings(file)


def test_an_empty_file_and_one_with_a_byte_order_mark_are_fine(tmp_path: Path) -> None:
    assert read_settings(written(tmp_path, "# nothing\n")) == {}
    assert read_settings(written(tmp_path, "\ufeffseeds: 3\n")) == {"seeds": 3}
