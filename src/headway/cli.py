"""The command line: functions become commands."""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path
from tempfile import gettempdir
from typing import Annotated, Any

import typer

from headway import __version__
from headway.commands.augment import augment
from headway.commands.compare import compare
from headway.commands.config import config
from headway.commands.data import data
from headway.commands.demo import demo
from headway.commands.describe import describe
from headway.commands.distill import distill
from headway.commands.doctor import doctor
from headway.commands.evaluate import evaluate
from headway.commands.export import export
from headway.commands.heads import heads
from headway.commands.import_ import import_
from headway.commands.look import look
from headway.commands.plot import plot
from headway.commands.predict import predict
from headway.commands.serve import serve
from headway.commands.train import train
from headway.commands.translate import score, translate
from headway.errors import STOPPED_BY_SIGINT, DiskError, HeadwayError
from headway.openmp import share_cores
from headway.storage.files import FULL, disk_trouble
from headway.text.unicode import plain

app = typer.Typer(
    name="headway",
    help="The Transformer, whole: train a translator from two text files, use it, export it, look inside it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
COMMANDS = (
    demo,
    doctor,
    train,
    translate,
    predict,
    distill,
    augment,
    evaluate,
    compare,
    score,
    look,
    heads,
    plot,
    describe,
    config,
    export,
    import_,
    serve,
)
for command in COMMANDS:
    app.command(command.__name__.rstrip("_"))(command)
app.add_typer(data, name="data")


def print_version(wanted: bool) -> bool:
    if wanted:
        print(f"headway {__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=print_version, is_eager=True)
    ] = False,
) -> None:
    """The Transformer, whole: train a translator from two text files, use it, export it, look inside it."""


# newer typers carry a click of their own, so the class is found by way of typer
WrongUse: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


def main() -> None:
    """Run a command. A user's mistake becomes one line and an exit code, a fault of the program a report."""
    share_cores()
    os.environ["PYTHONSAFEPATH"] = "1"  # no Python that a library starts imports from the current folder either
    try:
        code = run()
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit) as ended:  # click and rich make an exit of a closed pipe
        if not isinstance(ended, BrokenPipeError) and not isinstance(ended.__context__, BrokenPipeError):
            raise
        code = 0  # whoever read has seen enough
        discard_output()
    except OSError:  # it is full, and that was said
        code = DiskError.exit_code
        discard_output()
    sys.exit(code)


def discard_output() -> None:
    """Discard the rest of the output: nobody can read it, and Python would complain of it when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def run() -> int:
    try:
        code = app(standalone_mode=False)
        with disk_trouble(Path("standard output"), 0):
            sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except HeadwayError as error:
        return complain(one_line(error), error.exit_code)
    except WrongUse as error:  # without a text where a command alone has shown its help already
        said = error.format_message().strip()
        path = error.ctx.command_path if getattr(error, "ctx", None) else "headway"
        return complain(f"{said} (see {path} --help)", 2) if said else 2
    except (typer.Abort, KeyboardInterrupt):
        return complain("stopped", STOPPED_BY_SIGINT)
    except BrokenPipeError:
        raise
    except Exception as error:
        return complain_of_fault(error)


def one_line(error: BaseException) -> str:
    """Return the message on one line, without characters that would control the terminal."""
    return plain(" ".join((str(error) or type(error).__name__).split()))


def complain(text: str, code: int) -> int:
    print(f"headway: {text}", file=sys.stderr)
    return code


def complain_of_fault(error: Exception) -> int:
    """Report a fault of the program, or a full standard output (full files are reported where they are written)."""
    if isinstance(error, OSError) and error.errno in FULL:
        return complain(f"cannot write standard output: {error.strerror}; make room", DiskError.exit_code)
    return complain(f"a fault in headway: {one_line(error)}; please report it with {report()}", 1)


def report() -> Path:
    path = Path(gettempdir()) / f"headway-fault-{os.getpid()}.txt"
    path.write_text(traceback.format_exc(), encoding="utf-8")
    return path
