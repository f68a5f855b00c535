"""Options are declared once: Python, the command line and the server agree on names, ranges and defaults."""

from __future__ import annotations

import ast
import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
import typer.main
from typer.testing import CliRunner

from headway.cli import app
from headway.commands import options
from headway.commands.options import Given, Only, command
from headway.errors import UsageError
from headway.options import declared, option, type_of
from headway.tasks.decoding_options import DecodingOptions, GenerationOptions

COMMANDS: dict[str, Any] = typer.main.get_command(app).commands  # pyright: ignore[reportAttributeAccessIssue]


@dataclass(frozen=True)
class Taste:
    sweet: int = option(3, "How sweet.", least=1, most=9)
    spices: tuple[str, ...] = option((), "A spice. Repeatable.", flags=("--spice",))
    hot: bool = option(False, "Serve it hot.")
    cold: bool = option(True, "Allow ice.")
    fresh: Path | None = option(None, "A file.")

    def __post_init__(self) -> None:
        from headway.options import check_ranges

        check_ranges(self)


def call(function: Any, *words: str) -> Any:
    single = typer.Typer()
    single.command()(command(function))
    return CliRunner().invoke(single, list(words), catch_exceptions=False)


def test_a_group_becomes_options_and_comes_back_as_its_dataclass() -> None:
    found: list[Taste] = []

    def cook(taste: Taste = Taste()) -> None:
        found.append(taste)

    call(cook)
    call(cook, "--sweet", "5", "--spice", "salt", "--spice", "mace", "--hot", "--no-cold", "--fresh", "a.txt")
    assert found == [Taste(), Taste(5, ("salt", "mace"), True, False, Path("a.txt"))]


def test_the_default_of_a_parameter_is_the_default_of_the_options() -> None:
    found: list[Taste] = []

    def cook(taste: Annotated[Taste, Only("sweet")] = Taste(sweet=7)) -> None:
        found.append(taste)

    call(cook)
    assert found == [Taste(sweet=7)]
    assert call(cook, "--hot").exit_code == 2  # not one of the chosen options


def test_options_that_were_not_given_are_left_out_of_a_mapping() -> None:
    found: list[dict[str, Any]] = []

    def cook(taste: Annotated[dict[str, Any], Given(Taste)] = {}) -> None:  # noqa: B006
        found.append(taste)

    call(cook)
    call(cook, "--sweet", "3")
    assert found == [{}, {"sweet": 3}]


def test_a_value_outside_its_range_is_refused_with_the_range() -> None:
    def cook(taste: Taste = Taste()) -> None:
        del taste

    with pytest.raises(UsageError, match="sweet is 0; it must be from 1 to 9"):
        call(cook, "--sweet", "0")
    with pytest.raises(UsageError, match="top-p is 0.0; it must be above 0 and at most 1"):
        GenerationOptions(top_p=0.0)
    with pytest.raises(UsageError, match="temperature is nan"):
        DecodingOptions(temperature=float("nan"))


def test_quiet_discards_notes_and_keeps_results(capsys: pytest.CaptureFixture[str]) -> None:
    import sys

    @command
    def cook() -> None:
        print("soup")
        print("a note", file=sys.stderr)

    cook(quiet=True)
    assert capsys.readouterr() == ("soup\n", "")
    cook()
    assert capsys.readouterr() == ("soup\n", "a note\n")


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_option_has_help_in_full_sentences(name: str) -> None:
    for chosen in getattr(COMMANDS[name], "commands", {"": COMMANDS[name]}).values():
        for param in chosen.params:
            text = getattr(param, "help", None)
            assert text and (text[0].isupper() or text.startswith(("key=", "."))), param.name
            assert text.rstrip().endswith((".", ")")), f"{name} {param.name}: {text}"


def test_translate_has_every_decoding_option() -> None:
    known = {flag for param in COMMANDS["translate"].params for flag in param.opts}
    for name, (_, details) in declared(DecodingOptions).items():
        assert set(details.flags or (options.dashed(name),)) <= known
    assert {"--fast", "--trace", "--with", "--input", "--output", "--resume", "--scores", "--confidence"} <= known


def test_the_type_of_an_option_is_that_of_its_field() -> None:
    assert (type_of(DecodingOptions, "beam"), type_of(GenerationOptions, "top_p")) == (int, float)


def test_functions_of_commands_are_short_and_have_few_parameters() -> None:
    for path in Path(inspect.getfile(options)).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                where = f"{path.name}:{node.name}"
                assert len([*node.args.args, *node.args.kwonlyargs]) <= 8, where
                assert node.end_lineno is not None and node.end_lineno - node.lineno < 60, where


def test_the_version_is_printed() -> None:
    import headway

    told = CliRunner().invoke(app, ["--version"])
    assert (told.exit_code, told.output) == (0, f"headway {headway.__version__}\n")
