"""The twins' tokenizer: byte-level BPE with one special token that begins every text."""

from collections.abc import Iterable

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

BOS = "<|bos|>"


def train_tokenizer(texts: Iterable[str], vocabulary: int, length: int) -> PreTrainedTokenizerFast:
    """A tokenizer of `vocabulary` entries, BOS (id 0) included. Merges depend on the texts alone."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=[BOS], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    bpe.train_from_iterator(texts, trainer)
    bpe.post_processor = processors.TemplateProcessing(single=f"{BOS} $A", special_tokens=[(BOS, 0)])
    return PreTrainedTokenizerFast(tokenizer_object=bpe, bos_token=BOS, eos_token=BOS, model_max_length=length)
