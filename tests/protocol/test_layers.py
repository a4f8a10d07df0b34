import pytest

from polarlens.errors import UsageError
from polarlens.protocol.layers import format_layers, parse_layers


@pytest.mark.parametrize(
    ("spec", "n_layers", "groups"),
    [
        ("8-15", 24, (tuple(range(8, 16)),)),
        ("4,6", 12, ((4, 6),)),
        ("8-15,20", 24, ((8, 9, 10, 11, 12, 13, 14, 15, 20),)),
        ("20, 8-10", 24, ((8, 9, 10, 20),)),
        ("0", 1, ((0,),)),
        ("23", 24, ((23,),)),
        ("0-23", 24, (tuple(range(24)),)),
        ("each", 3, ((0,), (1,), (2,))),
        # floor(L/3) ... floor(2L/3) - 1, at least one block
        ("middle", 24, (tuple(range(8, 16)),)),
        ("middle", 30, (tuple(range(10, 20)),)),
        ("middle", 1, ((0,),)),
        ("middle", 2, ((0,),)),
        ("middle", 3, ((1,),)),
        ("middle", 4, ((1,),)),
        ("middle", 5, ((1, 2),)),
    ],
)
def test_specs_name_groups_of_blocks(spec: str, n_layers: int, groups: tuple[tuple[int, ...], ...]) -> None:
    assert parse_layers(spec, n_layers) == groups


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("24", "0 to 23"),
        ("8-24", "0 to 23"),
        ("0-999999999", "0 to 23"),
        ("15-8", "Write 8-15"),
        ("", "names no block"),
        (",", "names no block"),
        ("4,,6", "names no block"),
        ("-1", "names no block"),
        ("4-", "names no block"),
        ("8–15", "names no block"),  # an en dash
        ("Middle", "names no block"),
        ("1.5", "names no block"),
        ("٣", "names no block"),  # a digit, but not one of 0-9
        ("9" * 5000, "names no block"),
        ("4,4", "4 is named twice"),
        ("4-8,6", "6 is named twice"),
        ("6,4-8", "6 is named twice"),
    ],
)
def test_bad_specs_are_refused_with_what_is_right(spec: str, said: str) -> None:
    with pytest.raises(UsageError, match=r"^layers: ") as caught:
        parse_layers(spec, 24)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("layers", "text"),
    [
        (range(8, 16), "8-15"),
        ((4, 6), "4,6"),
        ((20, *range(8, 16)), "8-15,20"),
        ((4, 5), "4-5"),
        ((3,), "3"),
        ((0, 2, 3, 4, 9), "0,2-4,9"),
    ],
)
def test_groups_have_one_spelling_and_it_reads_back(layers: tuple[int, ...], text: str) -> None:
    assert format_layers(layers) == text
    assert parse_layers(text, 24) == (tuple(sorted(layers)),)
