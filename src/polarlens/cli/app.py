"""The commands and their options. Values are passed on as text; `protocol.config` alone reads and checks them.

What is heavy to import (torch, transformers, pandas) is imported inside the commands, so that help and usage errors
answer at once.
"""

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polarlens.cli.options import Flag, Text, Texts, option
from polarlens.cli.twins import twins
from polarlens.errors import UsageError
from polarlens.version import __version__

if TYPE_CHECKING:
    from polarlens.protocol.compare import Compared
    from polarlens.protocol.config import RunConfig

app = typer.Typer(
    help="Move the direction or the length of hidden states by the same distance, and measure what the model loses.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.add_typer(twins, name="twins")


Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Device = Annotated[Text, option("--device", "cpu|cuda|mps|auto|split", "Where the model runs (default cpu).")]
Dtype = Annotated[Text, option("--dtype", "TYPE", "float32 (default), float64, bfloat16 or float16.")]
TrustPickle = Annotated[Flag, typer.Option("--trust-pickle", help="Load pickled weights, which can run code.")]
TrustCode = Annotated[Flag, typer.Option("--trust-remote-code", help="Run code that comes with the model.")]


@app.callback(invoke_without_command=True)
def polarlens(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """What is done without a command."""
    if context.invoked_subcommand is None:
        print(__version__ if version else context.get_help())


@app.command()
def run(
    model: Annotated[
        Texts,
        typer.Argument(
            metavar="[MODEL ...]",
            help="Hub ids (owner/name, @revision allowed), folders, .gguf files, or a bundled twin (twin-layernorm, "
            "twin-rmsnorm); none: both twins, on bundled data, with the shipped configuration.",
        ),
    ] = None,
    config: Annotated[Text, option("--config", "FILE", "YAML file with these options as keys.")] = None,
    text: Annotated[Text, option("--text", "SPEC", "Passages for the loss: .txt, .jsonl, .tsv, .csv, hub:...")] = None,
    text_filter: Annotated[Text, option("--text-filter", "none|notebook", "Which passages are kept.")] = None,
    max_tokens: Annotated[Text, option("--max-tokens", "N", "Tokens kept of a passage (default 64).")] = None,
    pairs: Annotated[Texts, option("--pairs", "SPEC", "Minimal pairs; may be given several times.")] = None,
    treebank: Annotated[Text, option("--treebank", "SPEC", "Trees for the probes: .conllu, hub:..., bundled.")] = None,
    treebank_limit: Annotated[Text, option("--treebank-limit", "N", "Its sentences kept, in place of --limit.")] = None,
    limit: Annotated[Text, option("--limit", "N", "Items kept of each SPEC (default all).")] = None,
    layers: Annotated[
        Text, option("--layers", "SPEC", "8-15, 4,6, middle (default) or each; blocks count from 0.")
    ] = None,
    preset: Annotated[Text, option("--preset", "NAME", "matched (default), paper or notebook.")] = None,
    delta: Annotated[Text, option("--delta", "LIST", "Displacements, as 0.05,0.1.")] = None,
    delta_mode: Annotated[Text, option("--delta-mode", "MODE", "relative, absolute or site.")] = None,
    positions: Annotated[Text, option("--positions", "LIST", "all, no-first, no-sinks.")] = None,
    bos: Annotated[Text, option("--bos", "auto|none|TOKEN", "What stands before each item.")] = None,
    seeds: Annotated[Text, option("--seeds", "N", "Number of seeds (default 5).")] = None,
    experiments: Annotated[
        Text,
        option(
            "--experiments",
            "LIST",
            "Of sweep, repair, propagation (these by default), probing (with a treebank), audit, curvature.",
        ),
    ] = None,
    repair: Annotated[Text, option("--repair", "LIST", "Paths to repair (default all that the model allows).")] = None,
    repair_layers: Annotated[
        Text, option("--repair-layers", "SPEC", "Where (default above the first perturbed block), or each.")
    ] = None,
    out: Annotated[Text, option("--out", "DIR", "The run's folder (default polarlens-runs/MODEL).")] = None,
    overwrite: Annotated[Flag, typer.Option("--overwrite", help="Discard what the folder holds.")] = None,
    allow_mismatch: Annotated[
        Flag, typer.Option("--allow-mismatch", help="Keep work whose realised distance is off.")
    ] = None,
    device: Device = None,
    dtype: Dtype = None,
    batch_tokens: Annotated[Text, option("--batch-tokens", "N", "Tokens in one forward pass.")] = None,
    ci_width: Annotated[
        Text, option("--ci-width", "W", "Add texts until the loss ratio's half-width is W of it, as 0.1.")
    ] = None,
    trust_pickle: TrustPickle = None,
    trust_remote_code: TrustCode = None,
    executor: Annotated[Text, option("--executor", "local|ray", "Who does the work (default local).")] = None,
    ray_address: Annotated[
        Text,
        option("--ray-address", "ADDRESS", "HOST:PORT of a Ray cluster, or auto (default: a Ray of its own here)."),
    ] = None,
    dry_run: Annotated[Flag, typer.Option("--dry-run", help="Print the plan and stop.")] = None,
    quiet: Annotated[Flag, typer.Option("--quiet", help="No plan, no progress.")] = None,
    as_json: Json = False,
) -> int:
    """Run the protocol on a model and write a folder of results. The same command again resumes it.

    Several models: a folder each under --out, and compare.json and compare.html there.
    """
    options = dict(locals())
    from polarlens.protocol.config import resolved
    from polarlens.protocol.config_file import configure

    del options["config"], options["as_json"]
    options["models"] = options.pop("model") or None
    configuration = configure(options, None if config is None else Path(config), twins=True)
    folder = resolved(configuration).out
    assert folder is not None
    _check_writable(folder)
    if len(configuration.models) > 1:
        return _run_many(configuration, as_json)

    from polarlens.protocol.result import Run
    from polarlens.protocol.runner import execute

    result = execute(configuration)
    if not isinstance(result, Run):  # a dry run, whose plan has been printed
        return 0
    _print_summary(result.summary, result.folder, as_json)
    for failure in result.failed:
        print(f"failed: {failure}", file=sys.stderr)
    return 4 if result.failed else 0


@app.command()
def check(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A Hub id, a directory or a .gguf file.")],
    device: Device = None,
    dtype: Dtype = None,
    trust_pickle: TrustPickle = None,
    trust_remote_code: TrustCode = None,
    as_json: Json = False,
) -> int:
    """Show what is known about a model: family, wiring, norms, sites and how each was verified."""
    options = dict(locals())
    from polarlens.protocol.config_file import configure

    del options["as_json"]
    options["models"] = options.pop("model")
    configuration = configure(options)

    from polarlens import models

    loaded = models.load(
        configuration.models[0],
        device=configuration.device,
        dtype=configuration.dtype,
        trust_pickle=configuration.trust_pickle,
        trust_remote_code=configuration.trust_remote_code,
    )
    found = models.check(loaded)
    _print(json.dumps(found.as_dict(), indent=2, allow_nan=False) if as_json else str(found))
    return 0


@app.command()
def report(
    folder: Annotated[str, typer.Argument(metavar="RUN", help="The folder of a run.")], as_json: Json = False
) -> int:
    """Rebuild the summary and the report from the rows on disk, without the model."""
    from polarlens.protocol.summarise import rebuild

    _print_summary(rebuild(Path(folder)), Path(folder), as_json)
    return 0


@app.command()
def compare(
    runs: Annotated[list[str], typer.Argument(metavar="RUN", help="The folders of two or more runs.")],
    out: Annotated[
        Text, option("--out", "DIR", "Where to write (default: the folder that holds the runs, else the current one).")
    ] = None,
    as_json: Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Write the files only.")] = False,
) -> int:
    """Put several runs side by side: compare.json and compare.html."""
    if out is not None:
        _check_writable(Path(out).expanduser())

    from polarlens.protocol.compare import compare

    _print_comparison(compare(list(runs), out), as_json, quiet)
    return 0


def _run_many(configuration: "RunConfig", as_json: bool) -> int:
    """Several models: the comparison on stdout; where there is none, the summary of the one run that was done."""
    from polarlens.protocol.many import execute_many

    result = execute_many(configuration)
    if result.compared is not None:
        _print_comparison(result.compared, as_json)
    else:
        for run in result.runs:
            _print_summary(run.summary, run.folder, as_json)
    for failure in result.failed:
        print(f"failed: {failure}", file=sys.stderr)
    return 4 if result.failed else 0


def _print_comparison(compared: "Compared", as_json: bool, quiet: bool = False) -> None:
    if as_json:
        _print(json.dumps(compared.document, indent=2, allow_nan=False))
    elif not quiet:
        _print(repr(compared))


def _print_summary(summary: dict[str, Any], folder: Path, as_json: bool) -> None:
    if as_json:
        _print(json.dumps(summary, indent=2, allow_nan=False))
    else:
        from polarlens.report import render_text

        _print(render_text(summary, folder))


def _print(document: str) -> None:
    """Write to stdout. A reader that has gone away is no error: the results are in their files."""
    try:
        print(document, flush=True)
    except BrokenPipeError:
        # The interpreter flushes stdout once more on its way out.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _check_writable(folder: Path) -> None:
    """Refuse a folder that could not be written, before the work is done; creates nothing."""
    present = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if not present.is_dir():
        raise UsageError("this is a file, not a folder", where=str(present), fix="Choose another folder with --out.")
    if not os.access(present, os.W_OK | os.X_OK):
        raise UsageError("the folder cannot be written", where=str(present), fix="Choose another with --out.")
