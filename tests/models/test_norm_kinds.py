"""The kind of a norm by behaviour."""

import pytest
import torch
from torch import Tensor, nn
from transformers.models.cohere.modeling_cohere import CohereLayerNorm
from transformers.models.gemma.modeling_gemma import GemmaRMSNorm
from transformers.models.llama.modeling_llama import LlamaRMSNorm
from transformers.models.olmo.modeling_olmo import OlmoLayerNorm

from polarlens.models.norms import common_kind, kind_of

WIDTH = 48


class Tanh(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(x)


class Centred(nn.Module):
    """Subtracts the mean but keeps the length: not a norm."""

    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(-1, keepdim=True)


class Unit(nn.Module):
    def forward(self, hidden: Tensor) -> Tensor:
        return hidden / hidden.norm(dim=-1, keepdim=True)


def randomised(norm: nn.Module) -> nn.Module:
    for parameter in norm.parameters():
        nn.init.normal_(parameter, std=0.5)
    return norm


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("norm", "kind"),
    [
        (randomised(nn.LayerNorm(WIDTH)), "layernorm"),
        (nn.LayerNorm(WIDTH, elementwise_affine=False), "layernorm"),
        (randomised(CohereLayerNorm(WIDTH)), "layernorm"),
        (OlmoLayerNorm(WIDTH), "layernorm"),
        (randomised(LlamaRMSNorm(WIDTH)), "rmsnorm"),
        (randomised(GemmaRMSNorm(WIDTH)), "rmsnorm"),
        (Unit(), "rmsnorm"),
        (Tanh(), "unknown"),
        (Centred(), "unknown"),
        (nn.Identity(), "unknown"),
        (nn.Linear(WIDTH, WIDTH), "unknown"),
        (nn.Linear(WIDTH, 2), "unknown"),
        (nn.Bilinear(WIDTH, WIDTH, WIDTH), "unknown"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else value,
)
def test_kind_by_behaviour(norm: nn.Module, kind: str, dtype: torch.dtype) -> None:
    assert kind_of(norm.to(dtype), WIDTH, torch.empty(0, dtype=dtype)) == kind
    norm.float()


def test_a_common_kind_needs_all_norms_to_agree() -> None:
    like = torch.empty(0)
    layer, rms = nn.LayerNorm(WIDTH), LlamaRMSNorm(WIDTH)
    assert common_kind([layer, layer], WIDTH, like) == "layernorm"
    assert common_kind([layer, rms], WIDTH, like) == "unknown"
    assert common_kind([], WIDTH, like) == "unknown"
