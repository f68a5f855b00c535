"""Is a tokenizer.json of unknown origin safe to open? Found out in another process, whose memory is limited."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from headway.errors import UsageError
from headway.subprocesses import python, surroundings
from headway.text import files
from headway.text.spm import MEMORY, SHARE

SECONDS = 60.0
STEPS = 32  # of one normaliser or decoder
GROWTH = 64  # how many times as long a normaliser or decoder may make a text
LONGEST = 10_000  # characters of a piece, a pattern or a replacement
TEXTS = ("", " ", "A b.", "ÄÖ ß", "日本語", "<s>", "\0\n", "\U0001f600" * 50, "word " * 500)
REFUSED = 3  # what the child exits with when it can say why


def try_json_in_child(text: bytes, name: str, seconds: float = SECONDS) -> None:
    """Open it in another process first: what takes too much memory ends that process and not this one."""
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
    """Bytes of memory that opening a file of this size may take."""
    return MEMORY + SHARE * size


# ---------------------------------------------------------------- in the child


def main() -> None:
    limit_memory(int(sys.argv[1]))
    data = sys.stdin.buffer.read()
    try:
        examine(data)
    except (ValueError, TypeError, AttributeError, LookupError, RecursionError, UsageError) as error:
        print(" ".join(str(error).split())[:200])
        sys.exit(REFUSED)


def limit_memory(most: int) -> None:
    """Where the system can: on Windows and macOS only time is limited."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    except (ImportError, ValueError, OSError):
        pass


def examine(data: bytes) -> None:
    """ValueError where a text or a piece can grow without bounds, or the library does not take the file."""
    from headway.text.hub import open_json

    table = files.parse_json(data)
    if not isinstance(table, dict):
        raise ValueError("it is not a JSON object")
    for name in ("normalizer", "decoder"):
        check_growth(name, table.get(name))
    longest = max((len(string) for string in strings(table)), default=0)
    if longest > LONGEST:
        raise ValueError(f"a piece or a pattern has {longest:,} characters, at most {LONGEST:,} are allowed")
    inner = open_json(data.decode())
    for text in TEXTS:
        inner.decode(inner.encode(text, add_special_tokens=False).ids)


def check_growth(name: str, part: Any) -> None:
    every = list(steps(part))
    grown = math.prod(map(growth, every))
    if len(every) > STEPS or grown > GROWTH:
        raise ValueError(
            f"its {name} has {len(every)} steps and makes a text up to {grown:.3g} times as long; "
            f"at most {STEPS} steps and {GROWTH} times are allowed"
        )


def steps(part: Any) -> Iterator[dict[str, Any]]:
    """What is done one after another, out of sequences inside sequences."""
    if not isinstance(part, dict):
        return
    inner = part.get("normalizers", part.get("decoders"))
    if isinstance(inner, list):
        for one in inner:
            yield from steps(one)
    else:
        yield part


def growth(step: dict[str, Any]) -> float:
    """The most that one step makes of one character. A pattern may fit between any two characters."""
    pattern = step.get("pattern")
    fixed = pattern.get("String", "") if isinstance(pattern, dict) else ""
    put = len(step.get("content") or "")
    return max(1.0, put / len(fixed) if fixed else 1 + put if pattern else 1, 1 + len(step.get("prepend") or ""))


def strings(table: Any) -> Iterator[str]:
    """All texts of a table but the packed rules of sentencepiece, which are long and of fixed effect."""
    if isinstance(table, str):
        yield table
    elif isinstance(table, dict):
        yield from table
        for name, value in table.items():
            if name != "precompiled_charsmap":
                yield from strings(value)
    elif isinstance(table, list):
        for value in table:
            yield from strings(value)


if __name__ == "__main__":
    main()
