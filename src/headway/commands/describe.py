"""headway describe: a model's parameters, its figure and its modules, for the sizes of a recipe, a file or a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from rich import box
from rich.console import Console
from rich.table import Column, Table

from headway import config
from headway.errors import UsageError
from headway.storage.publication import place_of

WEIGHTS = "model.safetensors"
PIECES = 32_000  # a vocabulary, where nothing says how large it is
BYTES = {"fp32": 4, "bf16": 2, "int8": 1}
ADAM = 16  # bytes a parameter while training: itself, its gradient and two averages
Option = typer.Option


def describe(
    what: Annotated[str, typer.Argument(help="A recipe, a run or a design as TOML, or a model folder.")] = "base",
    vocabulary: Annotated[int | None, Option(help="Pieces, where the file does not say how many.")] = None,
    set_: Annotated[list[str] | None, Option("--set", help="key=value, for example width=256.")] = None,
    pairs: Annotated[bool, Option("--pairs", help="Only which positions go with which attention.")] = False,
) -> None:
    """Show what a model is made of: parameters by part, the paper's figure in your sizes, and all modules."""
    console = Console(highlight=False)
    if pairs:
        console.print(pair_table(), soft_wrap=True)
        return
    import torch

    from headway.inspection.anatomy import count_parts, figure, module_tree

    table, folder = table_of(what, set_ or [])
    design = design_of(table, what)
    with torch.device("meta"):  # shapes without memory: any size is described at once
        model = labelling(table, folder, design) or build(design, sizes_of(table, folder, vocabulary))
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
    from headway.model.design import EncoderDecoderDesign, Model
    from headway.tasks.run import Run

    if is_run(table):
        return config.from_dict(Run, table, where).model
    return config.from_dict(Model if "kind" in table else EncoderDecoderDesign, table, where)


def is_run(table: dict[str, Any]) -> bool:
    """Whether this is the table of a run, and not of a model alone."""
    return bool(table.keys() & {"model", "data", "text", "training"})


def sizes_of(table: dict[str, Any], folder: Path | None, given: int | None) -> list[int]:
    """Pieces of the source and the target: from the weights, from the option, from the run's own text."""
    if given is not None:
        return [given, given]
    if folder is not None and (folder / WEIGHTS).exists():
        return sizes_in(folder / WEIGHTS)
    texts = table.get("text", {}), table.get("target_text", table.get("text", {}))
    return [text.get("size", PIECES) for text in texts]


def sizes_in(weights: Path) -> list[int]:
    sizes = {name: shape[0] for name, shape in shapes_in(weights).items() if name.endswith("embedding.weight")}
    either = sizes.get("encoder.embedding.weight") or next(iter(sizes.values()), PIECES)
    return [sizes.get(f"{side}_embedding.weight", either) for side in ("source", "target")]


def shapes_in(weights: Path) -> dict[str, list[int]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(weights, framework="pt") as file:
            return {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise UsageError(f"{weights} is not a sound safetensors file: {error}") from None


def labelling(table: dict[str, Any], folder: Path | None, design: Any) -> Any:
    """A trained tagger or classifier with its head; how many labels there are only a trained one knows."""
    from headway.tasks.classification.task import Classification
    from headway.tasks.run import Run
    from headway.tasks.tagging.task import Tagging

    task = config.from_dict(Run, table).task if "task" in table else None
    if folder is None or not isinstance(task, Tagging | Classification) or not (folder / WEIGHTS).exists():
        return None
    shapes = shapes_in(folder / WEIGHTS)
    rows = {name: shape[0] for name, shape in shapes.items()}
    pieces, labels = rows["encoder.embedding.weight"], rows.get("head.linear.weight") or rows["linear.weight"]
    if isinstance(task, Classification):
        return task.build(design, pieces, labels)
    letters = [rows[name] for name in rows if name.startswith("letters.") and name.endswith("embedding.weight")]
    return task.build(design, pieces, sum(letters), labels)


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
    from headway.model.design import objection
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
        if objection(position, mixing, size, causal=True) is None:
            return "yes"
        reason = objection(position, mixing, size, causal=False)
        if reason is None:
            return "encoder"
        general = reason.replace(f"{mixing.kind} att", "this att").replace(f"{position.kind} pos", "these pos")
        return f"no ({notes.setdefault(general, len(notes) + 1)})"

    rows = [[one().kind, *(cell(one(), mixing) for mixing in mixings.values())] for one in get_args(Position)]
    head = ["positions", *mixings]
    lines = ["| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows]]
    return "\n".join([*lines, "", *(f"{number}. {note}" for note, number in notes.items())])
