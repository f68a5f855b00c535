"""Measure the code of a Python package: python docs/code_measures.py src/headway [OTHER FOLDER ...]

One line for each folder: files, lines, the biggest file, functions over 60 lines, the longest function, the most
parameters of a function, and the share of arguments that carry a type. Functions compiled by Triton are left out of the
parameters, because a GPU kernel takes every pointer and stride by itself.
"""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass
from pathlib import Path

LONG = 60  # lines of a function
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Measures:
    files: int
    lines: int
    biggest: tuple[int, str]
    functions: int
    long: int
    longest: tuple[int, str]
    most_parameters: tuple[int, str]
    annotated: float


def arguments(function: Function) -> list[ast.arg]:
    given = function.args
    found = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    return [one for one in found if one.arg not in ("self", "cls")]


def is_kernel(function: Function) -> bool:
    return any("triton" in ast.unparse(decorator) for decorator in function.decorator_list)


def measure(folder: Path) -> Measures:
    """Return the measures of all Python files below a folder."""
    sizes, found = [], []
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        sizes.append((len(text.splitlines()), str(path.relative_to(folder))))
        nodes = (node for node in ast.walk(ast.parse(text)) if isinstance(node, Function))
        found += [(path.relative_to(folder), node) for node in nodes]
    lengths = [((node.end_lineno or 0) - node.lineno + 1, f"{path}:{node.name}") for path, node in found]
    parameters = [(len(arguments(node)), f"{path}:{node.name}") for path, node in found if not is_kernel(node)]
    every = [one for _, node in found for one in arguments(node)]
    return Measures(
        files=len(sizes),
        lines=sum(size for size, _ in sizes),
        biggest=max(sizes, default=(0, "")),
        functions=len(found),
        long=sum(length > LONG for length, _ in lengths),
        longest=max(lengths, default=(0, "")),
        most_parameters=max(parameters, default=(0, "")),
        annotated=sum(one.annotation is not None for one in every) / max(1, len(every)),
    )


def main() -> None:
    print("| folder | files | lines | biggest file | over 60 lines | longest function | most parameters | typed |")
    print("|---|---|---|---|---|---|---|---|")
    for folder in map(Path, sys.argv[1:]):
        found = measure(folder)
        names = (f"{size:,} {name}" for size, name in (found.biggest, found.longest, found.most_parameters))
        biggest, longest, most = names
        share = f"{found.long / max(1, found.functions):.1%}"
        print(
            f"| {folder} | {found.files} | {found.lines:,} | {biggest} | {share} | {longest} | {most} "
            f"| {found.annotated:.0%} |"
        )


if __name__ == "__main__":
    main()
