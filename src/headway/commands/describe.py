"""headway describe: a model's parameters, its figure and its modules, for the sizes of a recipe, a file or a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from rich import box
from rich.console import Console
from rich.table import Column, Table

from headway import config
from headway.commands.options import command
from headway.errors import UsageError
from headway.storage.publication import place_of

WEIGHTS = "model.safetensors"
PIECES = 32_000  # a vocabulary, where nothing says how large it is
BYTES = {"fp32": 4, "bf16": 2, "int8": 1}
ADAM = 16  # bytes a parameter while training: itself, its gradient and two averages
Option = typer.Option


@command
def describe(
    what: Annotated[str, typer.Argument(help="A recipe, a run or a model design as TOML, or a model folder.")] = "base",
    vocabulary: Annotated[int | None, Option(help="Size of the vocabulary, where the file does not say.")] = None,
    set_: Annotated[list[str] | None, Option("--set", help="key=value, for example width=256.")] = None,
    pairs: Annotated[bool, Option("--pairs", help="Show only which position schemes go with which attention.")] = False,
) -> None:
    """Show the structure of a model: parameters by part, the figure of the paper in your sizes, and all modules."""
    console = Console(highlight=False)
    if pairs:
        console.print(pair_table(), soft_wrap=True)
        return
    import torch

    from headway.inspection.anatomy import count_parts, figure, module_tree

    table, folder = table_of(what, set_ or [])
    design = design_of(table, what)
    with torch.device("meta"):  # shapes without memory: any size is described at once
        if folder is not None and vocabulary is None and (folder / WEIGHTS).exists():
            model = trained_model(table, folder, design)
        else:
            model = build(design, sizes_of(table, vocabulary))
    console.print(counts_table(count_parts(model)), figure(design, model), "", module_tree(model), sep="\n")


# ---------------------------------------------------------------- what is described


def table_of(what: str, overrides: list[str]) -> tuple[dict[str, Any], Path | None]:
    """The configuration as a table, and the folder of a trained model if it is one."""
    from headway import recipes
    from headway.storage.migration import migrated

    path = Path(what)
    if path.is_dir():
        place = place_of(path)
        table, where = config.read_toml(place / "config.toml", overrides), str(path / "config.toml")
        return migrated(table, where, unversioned=1) if is_run(table) else table, place
    if path.suffix == ".toml" or path.exists():
        return config.read_toml(path, overrides), None
    if what not in recipes.ALL:
        raise UsageError(f"{what} is neither a file, a folder nor a recipe; the recipes are {', '.join(recipes.ALL)}")
    return config.override(config.to_dict(recipes.ALL[what]()), overrides), None


def design_of(table: dict[str, Any], where: str) -> Any:
    """A run keeps its model under [model]; a design stands alone. Without a kind it is an encoder-decoder."""
    from headway.model.design import EncoderDecoderDesign, ModelDesign
    from headway.tasks.run import Run

    if is_run(table):
        return config.from_dict(Run, table, where).model
    return config.from_dict(ModelDesign if "kind" in table else EncoderDecoderDesign, table, where)


def is_run(table: dict[str, Any]) -> bool:
    """Whether this is the table of a run, and not of a model alone."""
    return bool(table.keys() & {"model", "data", "text", "training"})


def sizes_of(table: dict[str, Any], given: int | None) -> list[int]:
    """Return the vocabulary sizes of the source and the target: from the option, else from the run's own text."""
    if given is not None:
        return [given, given]
    texts = table.get("text", {}), table.get("target_text", table.get("text", {}))
    return [text.get("size", PIECES) for text in texts]


def shapes_in(weights: Path) -> dict[str, list[int]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(weights, framework="pt") as file:
            return {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise UsageError(f"{weights} is not a valid safetensors file: {error}") from None


def trained_model(table: dict[str, Any], folder: Path, design: Any) -> Any:
    """Return the model of a folder: its vocabulary and its labels are as many as in the weights."""
    from headway.tasks.run import Run

    weights = folder / WEIGHTS
    task = config.from_dict(Run, {"task": table["task"]} if "task" in table else {}).task
    try:
        return task.build_like(design, shapes_in(weights))
    except ValueError as error:
        raise UsageError(str(error)) from None
    except (LookupError, StopIteration):
        raise UsageError(f"{weights}: these are not the weights of a model for {task.kind}") from None


def build(design: Any, sizes: list[int]) -> Any:
    from headway.model.design import EncoderDecoderDesign

    try:
        return design.build(*sizes) if isinstance(design, EncoderDecoderDesign) else design.build(sizes[-1])
    except ValueError as error:
        raise UsageError(str(error)) from None


# ---------------------------------------------------------------- tables


def counts_table(counts: dict[str, int]) -> Table:
    columns = [Column(name, justify="right") for name in ("parameters", "share", *BYTES)]
    table = Table("part", *columns, box=box.SIMPLE_HEAD, pad_edge=False)
    total = sum(counts.values())
    for part, count in counts.items():
        table.add_row(part, f"{count:,}", f"{count / total:.1%}", *(megabytes(count * n) for n in BYTES.values()))
    table.add_section()
    table.add_row("all", f"{total:,}", "", *(megabytes(total * n) for n in BYTES.values()), style="bold")
    table.caption = f"training with Adam in fp32 holds {megabytes(total * ADAM)}, and the vectors of a batch"
    return table


def megabytes(count: int) -> str:
    return f"{count / 1e9:,.2f} GB" if count >= 1e9 else f"{count / 1e6:,.1f} MB"


def pair_table() -> str:
    """Which positions go with which attention, in Markdown; the reason where they do not."""
    from headway.model.assembly import unsupported
    from headway.model.kernels import Fused, Linear, Linformer, Softmax
    from headway.model.kernels.scores import Score
    from headway.model.positions import Position
    from headway.model.size import Size

    size = Size(width=16, heads=2, key_heads=2, head_width=8)
    softmax = {f"softmax, {score().kind}": Softmax(score=score()) for score in get_args(Score)}
    mixings = {"fused": Fused(), "fused, unscaled": Fused(scaled=False)} | softmax
    mixings |= {"linear": Linear(), "linformer": Linformer()}
    notes: dict[str, int] = {}

    def cell(position: Any, mixing: Any) -> str:
        if unsupported(position, mixing, size, causal=True) is None:
            return "yes"
        reason = unsupported(position, mixing, size, causal=False)
        if reason is None:
            return "encoder"
        general = reason.replace(f"{mixing.kind} att", "this att").replace(f"{position.kind} pos", "these pos")
        return f"no ({notes.setdefault(general, len(notes) + 1)})"

    rows = [[one().kind, *(cell(one(), mixing) for mixing in mixings.values())] for one in get_args(Position)]
    head = ["positions", *mixings]
    lines = ["| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows]]
    return "\n".join([*lines, "", *(f"{number}. {note}" for note, number in notes.items())])
