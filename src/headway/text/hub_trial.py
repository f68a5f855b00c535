"""Check in a child process with limited memory that an untrusted tokenizer.json is safe to open."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, cast

from headway.errors import UsageError
from headway.subprocesses import python, surroundings
from headway.text import files
from headway.text.spm import MEMORY, SHARE

SECONDS = 60.0
STEPS = 32  # most steps of a normaliser or decoder
GROWTH = 64  # most times as long as the input that the output of a normaliser or decoder may be
LONGEST = 10_000  # most characters of a token, a pattern or a replacement
TEXTS = ("", " ", "A b.", "ÄÖ ß", "日本語", "<s>", "\0\n", "\U0001f600" * 50, "word " * 500)
REFUSED = 3  # exit code of the child when it has printed a reason


def try_json_in_child(text: bytes, name: str, seconds: float = SECONDS) -> None:
    """Open the file in a child process; UsageError if that fails, or takes too much memory or `seconds`."""
    command, where = python("-m", __name__, str(limits(len(text)))), surroundings()
    where["env"] |= {"TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}
    try:
        trial = subprocess.run(command, input=text, capture_output=True, timeout=seconds, check=False, **where)
    except subprocess.TimeoutExpired:
        raise UsageError(f"{name}: opening it takes more than {seconds:g} s; it is damaged or hostile") from None
    if trial.returncode == REFUSED:
        raise UsageError(f"{name}: cannot be used: {trial.stdout.decode(errors='replace').strip()}")
    if trial.returncode != 0:
        raise UsageError(f"{name}: opening it ends the process or takes too much memory; it is damaged or hostile")


def limits(size: int) -> int:
    """Return how many bytes of memory the child may take to open a file of `size` bytes."""
    return MEMORY + SHARE * size


# ---------------------------------------------------------------- child process


def main() -> None:
    """Read a file from stdin and exit with REFUSED and a reason on stdout if it must not be used."""
    limit_memory(int(sys.argv[1]))
    data = sys.stdin.buffer.read()
    try:
        examine(data)
    except (ValueError, TypeError, AttributeError, LookupError, RecursionError, UsageError) as error:
        print(" ".join(str(error).split())[:200])
        sys.exit(REFUSED)


def limit_memory(most: int) -> None:
    """Limit the memory of this process to `most` bytes. Windows and macOS cannot; there only time is limited."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    except (ImportError, ValueError, OSError):
        pass


def examine(data: bytes) -> None:
    """Raise ValueError if a text or a token could grow without bounds, or if the library refuses the file."""
    from headway.text.hub import open_json

    parsed = files.parse_json(data)
    if not isinstance(parsed, dict):
        raise ValueError("it is not a JSON object")
    table = cast(dict[str, object], parsed)
    for name in ("normalizer", "decoder"):
        check_growth(name, table.get(name))
    longest = max((len(string) for string in strings(table)), default=0)
    if longest > LONGEST:
        raise ValueError(f"a token or a pattern has {longest:,} characters; at most {LONGEST:,} are allowed")
    inner = open_json(data.decode())
    for text in TEXTS:
        inner.decode(inner.encode(text, add_special_tokens=False).ids)


def check_growth(name: str, part: object) -> None:
    """Raise ValueError if a normaliser or decoder has too many steps or could make a text too long."""
    every = list(steps(part))
    grown = math.prod(map(growth, every))
    if len(every) > STEPS or grown > GROWTH:
        raise ValueError(
            f"its {name} has {len(every)} steps and makes a text up to {grown:.3g} times as long; "
            f"at most {STEPS} steps and {GROWTH} times are allowed"
        )


def steps(part: object) -> Iterator[dict[str, Any]]:
    """Yield the steps of a normaliser or decoder in order, flattening nested sequences."""
    if not isinstance(part, dict):
        return
    step = cast(dict[str, Any], part)
    inner = step.get("normalizers", step.get("decoders"))
    if isinstance(inner, list):
        for one in cast(list[object], inner):
            yield from steps(one)
    else:
        yield step


def growth(step: dict[str, Any]) -> float:
    """Return the most characters that a step makes of one character. A pattern may match between any two characters."""
    pattern = step.get("pattern")
    fixed: str = cast(dict[str, Any], pattern).get("String", "") if isinstance(pattern, dict) else ""
    put = len(step.get("content") or "")
    return max(1.0, put / len(fixed) if fixed else 1 + put if pattern else 1, 1 + len(step.get("prepend") or ""))


def strings(table: object) -> Iterator[str]:
    """Yield all strings of a JSON value except sentencepiece's packed rules, which are long but harmless."""
    if isinstance(table, str):
        yield table
    elif isinstance(table, dict):
        named = cast(dict[str, object], table)
        yield from named
        for name, value in named.items():
            if name != "precompiled_charsmap":
                yield from strings(value)
    elif isinstance(table, list):
        for value in cast(list[object], table):
            yield from strings(value)


if __name__ == "__main__":
    main()
