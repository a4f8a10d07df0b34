"""Refusing what is not a causal language model, by its configuration; a model that slips through fails verification."""

from typing import Any

from transformers.models.auto import modeling_auto

from polarlens.errors import ModelError


def refuse_other_kinds(name: str, config: Any) -> None:
    """Raise ModelError for encoder-only, sequence-to-sequence, vision and other models without a causal head."""
    kind = config.model_type
    causal = _known("CAUSAL_LM")
    fix = "Polarlens measures causal (decoder-only) language models."
    if getattr(config, "is_encoder_decoder", False):
        raise ModelError(f"a sequence-to-sequence model ({kind})", where=name, fix=fix)
    # Model types that have both heads (BERT) say which one they are by `is_decoder`.
    if kind in _known("MASKED_LM") and not (kind in causal and getattr(config, "is_decoder", False)):
        raise ModelError(f"an encoder-only model ({kind})", where=name, fix=fix)
    own_code = "AutoModelForCausalLM" in (getattr(config, "auto_map", None) or {})
    if kind not in causal and not own_code:
        seeing = kind in _known("IMAGE_TEXT_TO_TEXT")
        vision = kind in _known("IMAGE_CLASSIFICATION") | _known("OBJECT_DETECTION")
        what = (
            "a vision-language model"
            if seeing
            else "a vision model"
            if vision
            else "a model without a causal language-model head"
        )
        raise ModelError(f"{what} ({kind})", where=name, fix=fix)


def _known(task: str) -> set[str]:
    return set(getattr(modeling_auto, f"MODEL_FOR_{task}_MAPPING_NAMES", {}))
