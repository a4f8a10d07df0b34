from pathlib import Path
from typing import Any

import pytest
from made_up import KINDS, summary
from made_up_experiments import whole

from polarlens.report import model_title, render_text
from polarlens.statistics.contrasts import UNUSABLE


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("intervals", [True, False])
def test_every_kind_fits_the_width(kind: str, intervals: bool) -> None:
    text = render_text(summary(kind, intervals=intervals, warnings=["a long warning " * 20]))
    assert max(map(len, text.splitlines())) <= 100
    assert f"VERDICT {kind}: " in text
    assert "None" not in text


def test_the_table_holds_the_numbers_of_the_summary() -> None:
    lines = [" ".join(line.split()) for line in render_text(summary()).splitlines()]
    assert "clean loss 3.46 [3.40, 3.51] nats per token (40 texts, 1,234 tokens)" in lines
    assert "clean accuracy 91.2 [88.5, 94.0] points (80 pairs, 3 ties)" in lines
    loss = lines.index("Next-token loss: damage, nats per token")
    assert lines[loss + 1] == "delta magnitude angular angular / magnitude"
    assert lines[loss + 3] == "0.1 0.0413 [0.0372, 0.0454] 0.237 [0.213, 0.261] 5.74 [4.59, 6.89]"
    pairs = lines.index("Minimal pairs: accuracy drop, points, independent noise")
    assert lines[pairs + 4] == "0.5 28.6 [25.8, 31.5] 8.1 [7.2, 8.9] 20.6 [16.5, 24.7]"
    assert "Minimal pairs: accuracy drop, points, common noise" in lines


def test_recoveries_and_the_audit_are_told() -> None:
    text = render_text(whole())
    lines = [" ".join(line.split()) for line in text.splitlines()]
    start = lines.index("Recovered share of the damage, %. Next-token loss, at delta 0.1, layers 8-15 perturbed")
    assert lines[start + 1] == "repair magnitude angular p (Holm)"
    assert lines[start + 2] == "attention 14.1 [9.1, 19.1] 28.1 [23.1, 33.1] 0.032"
    assert lines[start + 6].startswith("attention-pattern 7.6 [2.6, 12.6] 15.2 [10.2, 20.2]")
    assert "AUDIT of the noise policy: " in text
    assert max(map(len, text.splitlines())) <= 100
    assert "Recovered share" not in render_text(whole(layers=("8", "9")))  # one at a time: a figure
    assert "Recovered share" not in render_text(summary())


def test_claims_warnings_and_skipped_are_listed() -> None:
    skipped = [{"experiment": "repair", "what": "repair", "why": "not asked"}]
    text = render_text(summary(warnings=["beware"], skipped=skipped, complete=False, missing_units=7))
    assert "C1  replicates, size differs: Loss (ratio)" in text
    assert "paper 42.9, measured 5.74 [4.61, 6.89]; the stated order holds" in text
    assert "paper 18.8, measured 4.1; one cluster" in text
    assert "not run: C3, C4, C5, C6, C7, C8, C9 (not built)" in text
    assert "- beware" in text
    assert "- repair: not asked" in text
    assert "INCOMPLETE: 7 units" in text


def test_one_delta_is_shown_per_block() -> None:
    text = render_text(summary(layers=("0", "1", "10")))
    rows = [line.split()[:2] for line in text.split("Next-token loss")[1].split("\n\n")[0].splitlines()[2:]]
    assert rows == [["0", "0.0413"], ["1", "0.0417"], ["10", "0.0421"]]
    assert "at delta 0.1" in text


@pytest.mark.parametrize("tasks", [("loss",), ("pairs",), ()])
def test_a_missing_task_has_no_table(tasks: tuple[str, ...]) -> None:
    text = render_text(summary("inconclusive", tasks=tasks))
    assert ("Next-token loss: damage" in text) == ("loss" in tasks)
    assert ("Minimal pairs: accuracy drop" in text) == ("pairs" in tasks)


def test_control_characters_do_not_reach_the_terminal() -> None:
    text = render_text(summary(model="a\x1b[31mred\r\x07", warnings=["\x9b2J"]))
    assert all(c == "\n" or c.isprintable() for c in text)
    assert "a?[31mred" in text


def test_the_text_can_be_printed_in_any_encoding() -> None:
    text = render_text(summary("reversed", tasks=("loss", "pairs"), intervals=False))
    assert text.isascii()
    assert "magnitude - angular" in text


def test_it_says_where_the_files_are() -> None:
    assert (
        render_text(summary(), Path("runs") / "x").splitlines()[-1].startswith(f"FILES in {Path('runs') / 'x'}: report")
    )
    assert "FILES" not in render_text(summary())


def at_the_floor(delta: float) -> dict[str, Any]:
    """A summary in which one delta of the pairs is not usable."""
    made = summary()
    for one in made["contrasts"]:
        if one["task"] == "pairs" and one["delta"] == delta:
            one["why"] = f"one cluster: no interval; {UNUSABLE}"
    return made


def test_unusable_deltas_carry_a_star() -> None:
    lines = [" ".join(line.split()) for line in render_text(at_the_floor(0.1)).splitlines()]
    assert [line.split(" ")[1] == "*" for line in lines if line.startswith("0.1 ")] == [False, True, True]
    assert lines.count("* not usable: both arms are at the floor of the task") == 2
    assert not any("*" in line for line in render_text(summary()).splitlines())


@pytest.mark.parametrize(("n", "said"), [(30, False), (29, True)])
def test_few_items_behind_an_interval_are_named(n: int, said: bool) -> None:
    made = summary(tasks=("loss",))
    for one in (*made["cells"], *made["contrasts"]):
        one.update(n_items=100, n_clusters=n)
    assert (f"only {n} texts stand behind an interval" in render_text(made)) == said
    assert "stand behind" not in render_text(summary(tasks=("loss",), intervals=False))


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("/data/models/SmolLM2.Q4_1.gguf", "SmolLM2.Q4_1.gguf"),
        ("models/SmolLM2.gguf", "SmolLM2.gguf"),
        ("./twins/rms/", "rms"),
        ("~/m", "m"),
        ("C:\\models\\x", "x"),
        ("EleutherAI/pythia-410m@main", "EleutherAI/pythia-410m@main"),
        ("gpt2", "gpt2"),
        ("/", "/"),
        ("..", ".."),
    ],
)
def test_a_path_is_shown_by_its_last_part(name: str, title: str) -> None:
    assert model_title(name) == title
    assert render_text(summary(model=name)).startswith(f"{title}, preset matched")
