"""The identity of an item, against digests computed outside Python (`printf ... | sha256sum | cut -c1-16`)."""

import hashlib
import itertools
from collections.abc import Callable

import pytest

from polarlens.data import read_pairs, read_texts
from polarlens.data.items import identity

Write = Callable[[str, str | bytes], str]


def test_a_text_alone_is_its_own_sha256() -> None:
    assert identity("The cat sat.") == "84549cfaa5640d83"


def test_a_pair_is_good_newline_bad() -> None:
    assert identity("The cats sleep.\nThe cats sleeps.") == "1da074aa210df255"


def test_what_the_file_states_is_appended_after_nul() -> None:
    # printf 'a\0cluster\0v\0phenomenon\0p\0positions\0[[0,1]]'
    assert identity("a", cluster="v", phenomenon="p", positions=[(0, 1)]) == "75b31ed1ae189222"


def test_no_two_ways_of_stating_things_read_alike() -> None:
    labels = (None, "x", "phenomenon", "[[0,1]]")
    spans = (None, ((0, 1),), ((0, 1), (1, 2)))
    keys = [
        identity(text, cluster=cluster, phenomenon=phenomenon, positions=positions)
        for text, cluster, phenomenon, positions in itertools.product(("x", "cluster"), labels, labels, spans)
    ]
    assert len(set(keys)) == len(keys) == 2 * 4 * 4 * 3


def test_the_text_is_hashed_as_stripped_utf8(write: Write) -> None:
    (item,) = read_texts(write("a.txt", "\t Łódź — 日本語 \r\n")).items
    assert item.text == "Łódź — 日本語"
    assert item.item == item.cluster == hashlib.sha256("Łódź — 日本語".encode()).hexdigest()[:16]


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.csv"])
def test_the_format_does_not_enter(write: Write, name: str) -> None:
    content = {"a.txt": "One.\n", "a.jsonl": '{"text": "One."}\n', "a.csv": "text\nOne.\n"}[name]
    assert read_texts(write(name, content)).items[0].item == identity("One.")


def test_repeats_are_numbered_in_order_and_are_one_cluster(write: Write) -> None:
    items = read_texts(write("a.txt", "one\ntwo\none \n\n one\ntwo\n")).items
    one, two = identity("one"), identity("two")
    assert [item.item for item in items] == [one, two, f"{one}-1", f"{one}-2", f"{two}-1"]
    assert [item.cluster for item in items] == [one, two, one, one, two]
    assert [item.line for item in items] == [1, 2, 3, 5, 6]


def test_a_limit_and_a_longer_file_rename_nothing(write: Write) -> None:
    short = write("a.txt", "one\none\n")
    long = write("b.txt", "one\none\ntwo\none\n")
    names = [item.item for item in read_texts(long).items]
    assert [item.item for item in read_texts(short).items] == names[:2]
    assert [item.item for item in read_texts(long, limit=2).items] == names[:2]


def test_blimps_uid_is_the_phenomenon_but_no_part_of_the_identity(write: Write) -> None:
    blimp = write("a.jsonl", '{"sentence_good": "A b.", "sentence_bad": "A c.", "UID": "agreement"}')
    plain = write("b.jsonl", '{"good": "A b.", "bad": "A c."}')
    stated = write("c.jsonl", '{"good": "A b.", "bad": "A c.", "phenomenon": "agreement"}')
    (one,), (two,), (three,) = (read_pairs([path]).items for path in (blimp, plain, stated))
    assert one.phenomenon == three.phenomenon == "agreement"
    assert two.phenomenon is None
    assert one.item == two.item == identity("A b.\nA c.")
    assert three.item == identity("A b.\nA c.", phenomenon="agreement")


def test_a_stated_cluster_is_kept_and_enters(write: Write) -> None:
    path = write("a.jsonl", '{"good": "A b.", "bad": "A c.", "cluster": " verb "}\n{"good": "A b.", "bad": "A c."}')
    first, second = read_pairs([path]).items
    assert first.cluster == "verb"
    assert first.item == identity("A b.\nA c.", cluster="verb")
    assert second.cluster == second.item == identity("A b.\nA c.")


def test_the_same_pair_in_two_specs_has_one_identity_and_one_cluster(write: Write) -> None:
    line = '{"good": "A b.", "bad": "A c."}\n'
    first, second = read_pairs([write("a.jsonl", line), write("b.jsonl", line)]).items
    assert (first.item, first.cluster) == (second.item, second.cluster)
    assert first.dataset != second.dataset
