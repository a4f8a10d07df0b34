"""Which token, if any, stands before every text, and encoding without the tokenizer's own additions."""

from dataclasses import dataclass
from typing import Any, Literal

from polarlens.errors import UsageError


@dataclass(frozen=True)
class BosPolicy:
    """The token that is prepended to every item, the same for both members of a pair.

    requested: `auto`, `none` or a token, as asked for. token, id: None where nothing is prepended.
    origin: `bos` or `eos` (the tokenizer's), `given` (named by the user) or `none`.
    """

    requested: str
    token: str | None
    id: int | None
    origin: Literal["bos", "eos", "given", "none"]


def resolve_bos(tokenizer: Any, requested: str) -> BosPolicy:
    """The policy for `auto` (the tokenizer's BOS, else its EOS), `none`, or a token of the vocabulary.

    Raises UsageError when the named token is not in the vocabulary, or `auto` finds neither BOS nor EOS.
    """
    if requested == "none":
        return BosPolicy(requested, None, None, "none")
    if tokenizer is None:
        raise UsageError(
            "the model has no tokenizer, so there is no BOS token",
            where="--bos",
            fix="Give `none`, or add a tokenizer.",
        )
    vocabulary: dict[str, int] = tokenizer.get_vocab()
    if requested == "auto":
        for origin, token in (("bos", tokenizer.bos_token), ("eos", tokenizer.eos_token)):
            # A tokenizer class may claim a special token that its vocabulary does not hold.
            if token is not None and str(token) in vocabulary:
                return BosPolicy(requested, str(token), vocabulary[str(token)], origin)  # type: ignore[arg-type]
        raise UsageError(
            "the tokenizer has neither a BOS nor an EOS token",
            where="--bos auto",
            fix="Give `none` or a token by name.",
        )
    if requested not in vocabulary:
        raise UsageError(
            f"{requested!r} is not a token of this tokenizer", where="--bos", fix="Give `auto`, `none` or a token."
        )
    return BosPolicy(requested, requested, vocabulary[requested], "given")


def encode(tokenizer: Any, text: str) -> list[int]:
    """The token ids of a text without any special token added."""
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])
