"""What `polarlens check` reports: the anatomy of a model and how each site was verified."""

from dataclasses import asdict, dataclass
from typing import Any

from polarlens.errors import UsageError
from polarlens.models.language_model import LanguageModel
from polarlens.models.sites import Site
from polarlens.models.source import Source
from polarlens.models.tokens import BosPolicy, resolve_bos
from polarlens.models.verified import Verified, verified


@dataclass(frozen=True)
class Check:
    """The report on one model; `as_dict()` is plain data and `str()` is text for a terminal.

    record: `family record` or `discovered`. returns_tuple: whether blocks return a tuple (None: some do).
    verified: where the record of verified families has this layout, None where it does not. notes: those of the model.
    window: largest number of positions, None without a limit. bos: None when the tokenizer has no token for it.
    """

    model: str
    source: Source
    family: str
    record: str
    wiring: str
    norm_kind: str
    n_layers: int
    width: int
    n_params: int
    vocabulary: int
    tokenizer_size: int | None
    window: int | None
    bos: BosPolicy | None
    dtype: str
    device: str
    returns_tuple: bool | None
    verified: Verified | None
    notes: tuple[str, ...]
    sites: tuple[Site, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        return asdict(self)

    def __str__(self) -> str:
        source = self.source
        stored = f", stored as {source.quantisation}" if source.quantisation else ""
        revision = f" @ {source.revision}" if source.revision else ""
        bos = "the tokenizer has neither BOS nor EOS" if self.bos is None else f"{self.bos.token} ({self.bos.origin})"
        tokens = "no tokenizer" if self.tokenizer_size is None else f"{self.tokenizer_size:,} tokens"
        returns = {True: "a tuple", False: "a tensor", None: "a tensor or a tuple"}[self.returns_tuple]
        lines = [
            ("model", f"{self.model} ({source.kind}{revision}{stored})"),
            ("family", f"{self.family} ({self.record})"),
            ("verified", "not in the record of verified families" if self.verified is None else str(self.verified)),
            ("wiring", self.wiring),
            ("norm kind", self.norm_kind),
            ("blocks", f"{self.n_layers} of width {self.width}, each returns {returns}"),
            ("parameters", f"{self.n_params:,}"),
            ("vocabulary", f"{tokens}, {self.vocabulary:,} rows"),
            ("positions", "no limit" if self.window is None else f"{self.window:,}"),
            ("BOS", "none" if self.tokenizer_size is None else bos),
            ("dtype", f"{self.dtype} on {self.device}"),
        ]
        text = [f"{title:<11} {value}" for title, value in lines]
        for site in self.sites:
            error = "" if site.error is None else f", error {site.error:.1e}"
            text.append(f"{'+' if site.available else '-'} {site.name:<26} {site.how}{error}")
        return "\n".join([*text, *(f"! {note}" for note in self.notes)])


def check(lm: LanguageModel) -> Check:
    """The report on a loaded model; loading has refused models whose block outputs cannot be verified."""
    anatomy = lm.anatomy
    try:
        bos = resolve_bos(lm.tokenizer, "auto")
    except UsageError:
        bos = None
    kinds = set(anatomy.returns_tuple)
    return Check(
        model=lm.name,
        source=lm.source,
        family=anatomy.family,
        record="family record" if anatomy.known else "discovered",
        wiring=anatomy.wiring,
        norm_kind=anatomy.norm_kind,
        n_layers=lm.n_layers,
        width=lm.width,
        n_params=lm.n_params,
        vocabulary=lm.hf.get_input_embeddings().num_embeddings,
        tokenizer_size=None if lm.tokenizer is None else len(lm.tokenizer),
        window=lm.window,
        bos=bos,
        dtype=str(lm.dtype).removeprefix("torch."),
        device=str(lm.device),
        returns_tuple=kinds.pop() if len(kinds) == 1 else None,
        verified=verified(anatomy),
        notes=lm.notes,
        sites=tuple(anatomy.sites.values()),
    )
