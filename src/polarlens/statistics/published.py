"""The published claims (arXiv 2602.11169) as data: what is said, the number, and how it is judged here."""

from dataclasses import dataclass

PAPER_MODEL, PAPER_LAYERS, PAPER_PRESETS = "pythia-410m", "8-15", ("paper", "notebook")


@dataclass(frozen=True)
class Claim:
    """One claim.

    paper: the published number, None where there is none. delta: the published displacement (absolute), where one
    belongs to it. band: what counts as equal, on the scale of `paper`; None where the claim has a rule of its own.
    sign: turns a contrast as it stands in `contrasts` into the published order, which is positive. logarithmic: the
    contrast is a log ratio, shown as a ratio. needs: why it is not run where nothing is handed in.
    """

    id: str
    text: str
    paper: float | None
    delta: float | None = None
    band: tuple[float, float] | None = None
    sign: int = 1
    logarithmic: bool = False
    needs: str = ""


_REPAIR, _PROBING = "repair was not run", "probing was not run: it needs a treebank"
_SEVERAL = "needs several models: see compare.json"
CLAIMS: tuple[Claim, ...] = (
    Claim("C1", "Angular perturbation harms next-token loss more than magnitude perturbation (ratio)", 42.9, 1.0),
    Claim("C2", "Magnitude perturbation harms subject-verb agreement more than angular (points)", 18.8, 5.0),
    Claim(
        "C3",
        "Repairing attention recovers more of the angular than of the magnitude damage (fraction)",
        0.132,
        delta=5.0,
        band=(-0.02, 0.02),
        needs=_REPAIR,
    ),
    Claim(
        "C4",
        "Repairing the norms recovers more of the magnitude than of the angular damage (fraction)",
        0.162,
        delta=5.0,
        band=(-0.02, 0.02),
        sign=-1,
        needs=_REPAIR,
    ),
    Claim(
        "C5",
        "Angular errors grow more through the layers than magnitude errors (ratio of amplifications)",
        3.18,
        delta=5.0,
        band=(0.9, 1.11),
        logarithmic=True,
        needs="propagation was not run",
    ),
    Claim(
        "C6",
        "Direction encodes part of speech better than magnitude (points)",
        51.9,
        band=(-2.0, 2.0),
        needs=_PROBING,
    ),
    Claim(
        "C7",
        "Magnitude encodes parse depth (gain in held-out R2 over confounds)",
        None,
        band=(-0.01, 0.01),
        needs=_PROBING,
    ),
    Claim("C8", "RMSNorm reverses the loss side", None, needs=_SEVERAL),
    Claim("C9", "C1 and C3 hold at a scale of 1e9 parameters or more (ratio)", 56.8, needs=_SEVERAL),
)


def model_name(model: str) -> str:
    """The last part of a Hub id or a path, in lower case and without a revision."""
    return model.rstrip("/\\").replace("\\", "/").rsplit("/", 1)[-1].split("@")[0].lower()


def in_the_published_setting(model: str, preset: str, delta_mode: str | None) -> bool:
    """Whether a run has the paper's model and preset, so that its numbers may be compared with the published ones."""
    return model_name(model) == PAPER_MODEL and preset in PAPER_PRESETS and delta_mode == "absolute"
