import copy

import pytest
from made_up import KINDS, summary

from polarlens.report import sentence

# at delta 0.1: loss 0.2371 against 0.0413, difference 0.1958 ± 20 %; accuracy under independent noise 5.73 against
# 1.61, difference 4.12 ± 20 %
NUMBERS = (
    "at delta 0.1 loss rises by 0.237 nats per token for direction and 0.0413 for magnitude "
    "(difference 0.196 [0.157, 0.235]), and accuracy falls by 5.7 points for magnitude and 1.6 for direction "
    "(difference 4.1 [3.3, 4.9], independent noise)."
)
ALIKE = ", under common and independent noise alike; "
EVERYWHERE = ", at delta 0.02, 0.1 and 0.5" + ALIKE
FINDINGS = {
    "crossed": "Direction and magnitude carry different abilities: changing direction costs more next-token loss and "
    "changing magnitude costs more accuracy on minimal pairs",
    "reversed": "Direction and magnitude carry different abilities, contrary to the paper's order: changing magnitude "
    "costs more next-token loss and changing direction costs more accuracy on minimal pairs",
    "same_arm": "No dissociation: changing direction costs more on both tasks",
    "loss_only": "Only next-token loss tells the two apart: changing direction costs more, and accuracy is equal "
    "within 2 points",
    "syntax_only": "Only accuracy on minimal pairs tells the two apart: changing magnitude costs more, and the loss "
    "damages are equal within a factor of 0.9",
    "none": "Direction and magnitude do equal damage: accuracy within 2 points and loss within a factor of 0.9",
    "mixed": "Different answers hold in different places (crossed at delta 0.02 and 0.1; loss only at delta 0.5)",
}


@pytest.mark.parametrize("kind", FINDINGS)
def test_established_kinds_say_what_where_and_how_much(kind: str) -> None:
    where = ALIKE if kind == "mixed" else EVERYWHERE  # a mixture names the deltas of each kind
    assert sentence(summary(kind)) == FINDINGS[kind] + where + NUMBERS


def test_inconclusive_gives_the_reason_and_the_numbers() -> None:
    opening = "Whether direction and magnitude carry different abilities is not settled: inconclusive because; "
    assert sentence(summary("inconclusive")) == opening + NUMBERS


def test_uninformative_gives_the_clean_scores() -> None:
    assert sentence(summary("uninformative")) == (
        "Nothing can be said about direction and magnitude: the clean score is at the floor: loss; "
        "clean loss is 3.46 nats per token and clean accuracy is 91.2 points."
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tasks", [("loss",), ("pairs",), ()])
def test_a_missing_task_is_left_out(kind: str, tasks: tuple[str, ...]) -> None:
    text = sentence(summary(kind, tasks=tasks))
    assert ("loss rises" in text or "clean loss" in text) == ("loss" in tasks)
    assert ("accuracy falls" in text or "clean accuracy" in text) == ("pairs" in tasks)
    assert text.endswith(".")


@pytest.mark.parametrize("kind", KINDS)
def test_null_intervals_are_left_out(kind: str) -> None:
    text = sentence(summary(kind, intervals=False))
    assert "[" not in text
    assert "None" not in text
    assert "0.196" in text or kind == "uninformative"


def test_the_worse_arm_follows_the_sign_of_the_difference() -> None:
    document = summary("loss_only")
    for contrast in document["contrasts"]:
        if contrast["kind"] == "difference" and contrast["task"] == "loss":
            contrast["value"] = -contrast["value"]
    assert "changing magnitude costs more" in sentence(document)


def test_blocks_are_counted_and_the_middle_one_is_shown() -> None:
    document = summary("crossed", layers=("0", "1", "2"))
    document["verdict"]["by_layer"]["2"]["kind"] = "inconclusive"
    text = sentence(document)
    assert "in 2 of 3 blocks" in text
    assert "at delta 0.1 and block 1 loss rises by 0.239 nats" in text  # 0.2371 * 1.01


def test_numbers_come_from_where_the_verdict_holds() -> None:
    document = summary("crossed")
    document["verdict"]["deltas"] = [0.5]
    assert "at delta 0.5 loss rises by 1.19 nats per token" in sentence(document)


def test_the_delta_of_absolute_distances_is_near_5() -> None:
    document = summary("crossed", deltas=(0.1, 1.0, 5.0, 20.0), delta_mode="absolute")
    assert "; at delta 5 loss rises by 11.9 nats" in sentence(document)


def test_the_paper_preset_reads_losses_by_item() -> None:
    document = summary("uninformative", preset="paper")
    assert "clean loss is 3.79 nats" in sentence(document)


def test_the_summary_is_left_as_it_was() -> None:
    document = summary("crossed")
    before = copy.deepcopy(document)
    sentence(document)
    assert document == before


@pytest.mark.parametrize("kind", KINDS)
def test_the_documented_keys_of_a_verdict_are_enough(kind: str) -> None:
    document = summary(kind)
    document["verdict"] = {key: document["verdict"][key] for key in ("kind", "deltas", "by_pair_policy", "why")}
    text = sentence(document)
    assert NUMBERS in text or kind == "uninformative"
    assert "()" not in text
