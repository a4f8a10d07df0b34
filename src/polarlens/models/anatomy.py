"""A model's parts by role: the blocks, what each adds to the residual stream, and which sites were verified."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor, nn

from polarlens.errors import SiteError
from polarlens.models.families import Family
from polarlens.models.sites import ATTENTION, BLOCK_OUTPUT, MLP, PRE_ATTENTION_NORM, PRE_MLP_NORM, Site, refuse


def resolve(root: nn.Module, path: str | None) -> nn.Module | None:
    """The module at a dotted path below `root`; `a|b` tries a, then b; None where there is none."""
    for alternative in (path or "").split("|"):
        module: object = root
        for name in alternative.split("."):
            module = getattr(module, name, None)
        if alternative and isinstance(module, nn.Module):
            return module
    return None


@dataclass(frozen=True, eq=False)
class Block:
    """One transformer block with x the state it reads, a and m what attention and MLP add, y its output.

    attention, mlp: modules whose outputs carry a and m, None where unknown; mlp_input: the module that reads the
    MLP's input (`fc1` of OPT). Norms are None where the block has none in that role. The flags are those of `Family`.
    y = x + a + m, or with `norms_after_addition`: y = post_mlp_norm(z + m), z = post_attention_norm(x + a).
    """

    index: int
    module: nn.Module
    attention: nn.Module | None = None
    mlp: nn.Module | None = None
    mlp_input: nn.Module | None = None
    pre_attention_norm: nn.Module | None = None
    pre_mlp_norm: nn.Module | None = None
    post_attention_norm: nn.Module | None = None
    post_mlp_norm: nn.Module | None = None
    attention_adds_residual: bool = False
    mlp_adds_residual: bool = False
    norms_after_addition: bool = False
    residual_multiplier: float = 1.0

    @property
    def norms(self) -> tuple[nn.Module, ...]:
        """The norms of the residual stream's branches, in the order of a block."""
        named = (self.pre_attention_norm, self.post_attention_norm, self.pre_mlp_norm, self.post_mlp_norm)
        return tuple(norm for norm in named if norm is not None)

    def source(self, site: str) -> nn.Module:
        """The module whose output carries the site: hook it, then `contribution` reads and `raw` writes what it holds.

        A hook reads or replaces the hidden state in the output: the tensor or a tuple's first element. Clone what is
        captured, and never hand the same tensor in twice: Falcon adds to the MLP's output in place.
        """
        sandwich = not self.norms_after_addition
        sources = {
            BLOCK_OUTPUT: self.module,
            ATTENTION: (self.post_attention_norm if sandwich else None) or self.attention,
            MLP: (self.post_mlp_norm if sandwich else None) or self.mlp,
            PRE_ATTENTION_NORM: self.pre_attention_norm,
            PRE_MLP_NORM: self.pre_mlp_norm,
        }
        source = sources.get(site)
        if source is None:
            raise SiteError(f"the site {site!r} does not exist in this block", where=f"block {self.index}")
        return source

    def contribution(self, site: str, raw: Tensor, x: Tensor, a: Tensor | None = None) -> Tensor:
        """What is added to the stream, from `raw`, the output of `source(site)`.

        Parameters
        ----------
        site: ATTENTION or MLP.
        raw: (B, T, d), or (B*T, d) where the family flattens.
        x: (B, T, d) the block's input.
        a: (B, T, d) the attention contribution; needed for the MLP of families that add the residual inside it.

        Returns (B, T, d), a new tensor.
        """
        result = raw.reshape(x.shape) * self.residual_multiplier
        residual = self.residual(site, x, a)
        return result - residual if residual is not None else result

    def raw(self, site: str, contribution: Tensor, x: Tensor, a: Tensor | None = None) -> Tensor:
        """The inverse of `contribution`: what `source(site)` must return (B, T, d) so that `contribution` is added.

        x and a are those of the pass that it is handed to. Reshape to the shape of the output it replaces.
        """
        residual = self.residual(site, x, a)
        result = contribution if residual is None else contribution + residual
        return result / self.residual_multiplier

    def residual(self, site: str, x: Tensor, a: Tensor | None) -> Tensor | None:
        """What the module of the site adds to its contribution before it returns it; None in most families."""
        if site == ATTENTION:
            return x if self.attention_adds_residual else None
        if not self.mlp_adds_residual:
            return None
        if a is None:
            raise ValueError("the mlp of this family returns x + a + m: the attention contribution is needed")
        return x + a


@dataclass(frozen=True, eq=False)
class Anatomy:
    """What a model is made of, as verified when it was loaded.

    family: `config.model_type` of the text model.
    known: the parts come from a family record; else they were discovered.
    wiring: sequential | parallel | sandwich | sublayer-post-norm | post-norm | unknown.
    norm_kind: layernorm | rmsnorm | unknown.
    returns_tuple: per block, whether it returns a tuple that starts with the hidden state.
    sites: everything known about each site, by name.
    """

    model: str
    family: str
    known: bool
    layers: nn.ModuleList
    blocks: tuple[Block, ...]
    final_norm: nn.Module | None
    head: nn.Module
    wiring: str
    norm_kind: str
    returns_tuple: tuple[bool, ...]
    sites: Mapping[str, Site]

    def require(self, name: str) -> Site:
        """The site, or SiteError with the reason why it is not available."""
        site = self.sites.get(name)
        if site is None:
            raise SiteError(
                f"there is no site {name!r}", where=self.model, fix=f"Sites are {', '.join(map(repr, self.sites))}."
            )
        if not site.available:
            raise refuse(name, site.how, self.model)
        return site


def block_of(family: Family, index: int, module: nn.Module, multiplier: float) -> Block:
    """The parts of one block as its family's record names them; verification is for the caller."""
    mlp = resolve(module, family.mlp)
    return Block(
        index=index,
        module=module,
        attention=resolve(module, family.attention),
        mlp=mlp,
        mlp_input=resolve(module, family.mlp_input) or mlp,
        pre_attention_norm=resolve(module, family.pre_attention_norm),
        pre_mlp_norm=resolve(module, family.pre_mlp_norm),
        post_attention_norm=resolve(module, family.post_attention_norm),
        post_mlp_norm=resolve(module, family.post_mlp_norm),
        attention_adds_residual=family.attention_adds_residual,
        mlp_adds_residual=family.mlp_adds_residual,
        norms_after_addition=family.norms_after_addition,
        residual_multiplier=multiplier,
    )
