"""Doctor finds what would spoil a training silently, and is silent about good corpora."""

from __future__ import annotations

import gzip
import json
import random
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console
from typer.testing import CliRunner

from headway.commands.doctor import both_fields, doctor, show
from headway.data.checks import copies
from headway.data.checks.base import Finding, excerpt
from headway.data.checks.copies import Duplicates
from headway.data.doctor import Diagnosis, examine
from headway.data.formats import Names, count_lines, tsv
from headway.errors import RefusedError, UsageError


class Text(NamedTuple):
    source: list[str]
    target: list[str]


def invent(count: int, seed: int = 0) -> Text:
    """A made-up language pair: every word has a translation, neighbours change places, some words get lost."""
    rng = random.Random(seed)
    letters = ("bdfgklmnprst", "aeiou")
    syllables = [consonant + vowel for consonant in letters[0] for vowel in letters[1]]
    words = ["".join(rng.choices(syllables, k=rng.randint(1, 4))) for _ in range(800)]
    translations = ["".join(rng.choices(syllables, k=rng.randint(1, 5))) for _ in range(800)]
    weights = [1 / (rank + 5) for rank in range(800)]
    text = Text([], [])
    for _ in range(count):
        chosen = rng.choices(range(800), weights, k=rng.randint(4, 14))
        text.source.append(" ".join(words[word] for word in chosen).capitalize() + ".")
        if rng.random() < 0.5:
            chosen[0], chosen[1] = chosen[1], chosen[0]
        kept = [word for word in chosen if rng.random() < 0.9] or chosen
        text.target.append(" ".join(translations[word] for word in kept).capitalize() + ".")
    return text


TEXT = invent(2000)


@pytest.fixture
def paths(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "train.src", tmp_path / "train.tgt"


def write(paths: tuple[Path, Path], source: list[str], target: list[str]) -> None:
    for path, rows in zip(paths, (source, target), strict=True):
        path.write_text("".join(row + "\n" for row in rows), encoding="utf-8", newline="\n")


def titles(diagnosis: Diagnosis) -> list[str]:
    return [f"{finding.severity}: {finding.title}" for finding in diagnosis.findings]


def find(diagnosis: Diagnosis, part: str) -> Finding:
    (found,) = (finding for finding in diagnosis.findings if part in finding.title)
    return found


def line_of(finding: Finding, example: int = 0) -> int:
    return int(finding.examples[example].where.rsplit(":", 1)[1])


# ---------------------------------------------------------------- where the sides part


@pytest.mark.parametrize("quick", [True, False])
def test_a_good_corpus_is_left_in_peace(paths: tuple[Path, Path], quick: bool) -> None:
    write(paths, *TEXT)
    diagnosis = examine(*paths, quick=quick)
    assert diagnosis.lines == (2000, 2000)
    assert titles(diagnosis) == []
    diagnosis.refuse_if_fatal()


@pytest.mark.parametrize(
    ("place", "shift", "side"),
    [(35, -1, "target"), (800, 1, "target"), (1500, -1, "source"), (1930, 3, "target"), (100, 2, "source")],
)
def test_lost_and_added_lines_are_found(paths: tuple[Path, Path], place: int, shift: int, side: str) -> None:
    text = Text(TEXT.source[:], TEXT.target[:])
    rows = getattr(text, side)
    if shift < 0:
        del rows[place]
    else:
        rows[place:place] = [f"Added line {number}." for number in range(shift)]
    write(paths, *text)
    finding = find(examine(*paths), "lines but")
    assert (finding.severity, finding.count) == ("fatal", abs(shift))
    assert abs(line_of(finding) - (place + 1)) <= 4
    apart = line_of(finding, 1) - line_of(finding)
    assert apart == (shift if side == "target" else -shift)


@pytest.mark.parametrize(("first", "second"), [(1000, 1080), (100, 1900)])
def test_a_slip_that_a_second_one_hides_is_found(paths: tuple[Path, Path], first: int, second: int) -> None:
    target = TEXT.target[:first] + TEXT.target[first + 1 : second] + ["Added line."] + TEXT.target[second:]
    write(paths, TEXT.source, target)
    diagnosis = examine(*paths, quick=True)
    assert diagnosis.lines == (2000, 2000)
    finding = find(diagnosis, "paired with the translation of another line")
    assert finding.severity == "fatal"
    assert abs(line_of(finding) - (first + 1)) <= 4
    assert abs(finding.count - (second - first)) <= 6


def test_a_conversation_is_no_slip(paths: tuple[Path, Path]) -> None:
    """Replies stand in the next line's context: in one language that is said, and nothing is refused."""
    said = TEXT.source
    pairs = [(" | ".join(said[max(0, i - 2) : i]), said[i]) for i in range(1, len(said))]
    write(paths, *map(list, zip(*pairs, strict=True)))
    assert find(examine(*paths), "paired with the translation of another").severity == "fatal"
    told = examine(*paths, names=Names("", "", "en", "en"))
    finding = find(told, "more similar to another line")
    assert finding.severity == "warning" and finding.advice.startswith("normal if each line answers")
    told.refuse_if_fatal()
    named = tuple(path.with_suffix(".en") for path in (paths[0].with_stem("contexts"), paths[1].with_stem("replies")))
    write(named, *map(list, zip(*pairs, strict=True)))
    assert find(examine(*named), "more similar to another line").severity == "warning"


def test_a_missing_block_is_found(paths: tuple[Path, Path]) -> None:
    write(paths, TEXT.source, TEXT.target[:700] + TEXT.target[1100:])
    finding = find(examine(*paths), "lines but")
    assert abs(line_of(finding) - 1101) <= 4
    assert "400 lines" in finding.advice


def test_a_cut_off_file_is_told_from_a_slip(paths: tuple[Path, Path]) -> None:
    write(paths, TEXT.source, TEXT.target[:1500])
    finding = find(examine(*paths), "2,000 lines but")
    assert (finding.severity, finding.count) == ("fatal", 500)
    assert "match up to line 1,500" in finding.advice


def test_lines_that_do_not_match_are_found(paths: tuple[Path, Path]) -> None:
    other = invent(2000, seed=9)
    write(paths, TEXT.source, TEXT.target[:1000] + other.target[1000:1300] + TEXT.target[1300:])
    finding = find(examine(*paths), "do not look like translations")
    assert finding.severity == "warning"
    assert abs(line_of(finding) - 1001) <= 8
    assert abs(finding.count - 300) <= 30


def test_a_shuffled_side_is_found(paths: tuple[Path, Path]) -> None:
    write(paths, TEXT.source, random.Random(1).sample(TEXT.target, len(TEXT.target)))
    assert titles(examine(*paths)) == [
        "warning: the two sides do not look like translations: do the files belong together?"
    ]


def test_short_files_of_different_length_are_told(paths: tuple[Path, Path]) -> None:
    write(paths, ["a", "b", "c"], ["x", "y"])
    finding = find(examine(*paths), "has 3 lines but")
    assert "too few lines" in finding.advice


@pytest.mark.parametrize(("source", "target"), [("", ""), ("", "x"), (" ", "\t")])
def test_nothing_but_blank_lines(paths: tuple[Path, Path], source: str, target: str) -> None:
    write(paths, [source] * 9, [target] * 9)
    assert "lines blank on" in examine(*paths).fatal[0].title


any_bytes = st.lists(
    st.sampled_from([b"\n", b"\r\n", b"word", b"\xff", b"\0", b" ", "ж".encode(), b"&amp;"]), max_size=30
)


@given(left=any_bytes, right=any_bytes)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_are_examined(paths: tuple[Path, Path], left: list[bytes], right: list[bytes]) -> None:
    paths[0].write_bytes(b"".join(left))
    paths[1].write_bytes(b"".join(right))
    try:
        diagnosis = examine(*paths)
    except UsageError as error:
        assert "\n" not in str(error)
    else:
        assert diagnosis.lines == (count_lines(paths[0]), count_lines(paths[1]))
        json.dumps(diagnosis.to_json())


def test_blocks_of_lines_fit_together(paths: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Small blocks and sections find the same place as one large one."""
    write(paths, TEXT.source, TEXT.target[:1300] + TEXT.target[1301:])
    whole = find(examine(*paths), "lines but")
    monkeypatch.setattr("headway.data.checks.blocks.MOST_LINES", 256)
    monkeypatch.setattr("headway.data.checks.alignment.SECTION", 1024)
    monkeypatch.setattr("headway.data.checks.alignment.FAR_AWAY", 64)
    monkeypatch.setattr("headway.data.checks.tracker.FAR_AWAY", 64)
    assert abs(line_of(find(examine(*paths), "lines but")) - line_of(whole)) <= 3


# ---------------------------------------------------------------- sides and languages

ENGLISH = [
    "The dog is in the house and it is happy.",
    "You are on the way to the sea with that man.",
    "This was for you.",
]
GERMAN = [
    "Der Hund ist in dem Haus und er ist froh.",
    "Sie sind mit der Frau auf das Schiff.",
    "Das war nicht die Zeit.",
]
CHINESE = ["那只狗在房子里，它很高兴。", "你们正在去海边的路上。", "这是给你的。"]


def varied(rows: list[str]) -> list[str]:
    return [f"{row[:-1]} {number}{row[-1]}" for number in range(70) for row in rows]


@pytest.mark.parametrize(
    ("names", "contents", "wanted"),
    [
        (("a.en", "a.de"), (ENGLISH, GERMAN), None),
        (("a.en", "a.zh"), (ENGLISH, CHINESE), None),
        (("a.en", "a.de"), (GERMAN, ENGLISH), "fatal: the sides are swapped: {0} is in de, {1} in en"),
        (("a.en", "a.zh"), (CHINESE, ENGLISH), "fatal: the sides are swapped: {0} is in zh, {1} in en"),
        (("a.en", "a.de"), (ENGLISH, CHINESE), "warning: {1} should be de but looks like zh or yue"),
        (("one", "two"), (GERMAN, GERMAN[1:] + GERMAN[:1]), "warning: both sides look like the same language (de)"),
    ],
)
def test_languages(tmp_path: Path, names: tuple[str, str], contents: tuple[list[str], list[str]], wanted: str) -> None:
    paths = tmp_path / names[0], tmp_path / names[1]
    write(paths, varied(contents[0]), varied(contents[1]))
    found = [title for title in titles(examine(*paths)) if "sides" in title or "should be" in title]
    assert found == ([wanted.format(*paths)] if wanted else [])


def test_sides_swapped_against_the_dev_files(paths: tuple[Path, Path], tmp_path: Path) -> None:
    dev = tmp_path / "one", tmp_path / "two"
    write(paths, varied(ENGLISH), varied(GERMAN))
    write(dev, ENGLISH[:2], GERMAN[:2])
    assert not examine(*paths, dev=dev).fatal
    write(dev, GERMAN[:2], ENGLISH[:2])
    assert "swapped, compared with the dev files" in examine(*paths, dev=dev).fatal[0].title


def test_the_same_file_twice(paths: tuple[Path, Path]) -> None:
    write(paths, *TEXT)
    assert "fatal: both sides are the same file" in titles(examine(paths[0], paths[0]))
    paths[1].unlink()
    paths[1].symlink_to(paths[0])
    assert "fatal: both sides are the same file" in titles(examine(*paths))


# ---------------------------------------------------------------- lines


def test_every_kind_of_odd_line_is_counted(paths: tuple[Path, Path]) -> None:
    source, target = TEXT.source[:200], TEXT.target[:200]
    source[10], target[20] = "", "   "
    source[30] = target[30] = ""
    source[40] = "Doppelt \u200bbreit"
    source[41] = "\u200frechts"
    target[42] = "a\u2028b"
    target[43] = "bell \x07 and \x1b[31mred"
    target[44] = "lost \ufffd character"
    source[45] = "private \ue000 use"
    source[46] = "half\rline"
    source[50] = "GrÃ¼ÃŸe aus KÃ¶ln"
    target[51] = "Tom &amp; Jerry"
    target[52] = "un@@ known word"
    source[60] = "word " * 400
    target[61] = "x" * 900
    source[62] = "Это предложение написано по-русски"
    source[70] = source[71]
    target[70] = target[71]
    write(paths, source, target)
    found = {finding.title.split(" (")[0]: finding for finding in examine(*paths).findings}
    one = {
        "lines blank on both sides": 31,
        "zero-width characters and soft hyphens": 41,
        "direction marks": 42,
        "characters that other programs treat as line ends": 43,
        "control characters": 44,
        "damaged characters": 45,
        "private-use characters": 46,
        "carriage returns inside lines": 47,
        "text that was decoded wrongly": 51,
        "escaped characters such as &amp; and &apos;": 52,
        "text that is already split into subwords": 53,
        "duplicate pairs": 72,
        f"{paths[0]}: lines in Cyrillic letters, while the others are Latin": 63,
    }
    assert {title: (found[title].count, line_of(found[title])) for title in one} == {t: (1, n) for t, n in one.items()}
    assert found["lines blank on one side only"].count == 2
    assert found["sentences of more than about 250 tokens"].count == 1
    assert found["one side over 12 times longer than the other"].count == 2
    assert set(found) - set(one) == {
        "lines blank on one side only",
        "sentences of more than about 250 tokens",
        "one side over 12 times longer than the other",
    }
    assert not examine(*paths).fatal


def test_unreadable_lines_are_fatal_and_all_counted(paths: tuple[Path, Path]) -> None:
    write(paths, *TEXT)
    rows = [row.encode() for row in TEXT.source]
    rows[4], rows[5], rows[900], rows[7] = b"\xff\xfe", b"caf\xe9", b"\xc3", b"nul \0"
    rows[8] = b"x" * 40_000
    paths[0].write_bytes(b"\xef\xbb\xbf" + b"\r\n".join(rows) + b"\r\n")
    diagnosis = examine(*paths)
    finding = find(diagnosis, "not UTF-8")
    assert (finding.severity, finding.count) == ("fatal", 3)
    assert [example.where for example in finding.examples] == [f"{paths[0]}:{line}" for line in (5, 6, 901)]
    assert find(diagnosis, "NUL").count == 1
    assert find(diagnosis, "longer than 32 KiB").severity == "note"
    assert find(diagnosis, "Windows line ends").count == 1999
    assert find(diagnosis, "byte order mark").count == 1
    with pytest.raises(RefusedError, match="not fit for training: unreadable") as refused:
        diagnosis.refuse_if_fatal()
    assert refused.value.exit_code == 5
    assert not examine(*paths, invalid="skip").fatal


@pytest.mark.parametrize("content", [b"", "a\n".encode("utf-16")], ids=["empty", "utf-16"])
def test_files_that_are_no_text_are_refused(paths: tuple[Path, Path], content: bytes) -> None:
    write(paths, *TEXT)
    paths[1].write_bytes(content)
    with pytest.raises(UsageError, match=f"{paths[1]}:1:"):
        examine(*paths)


def test_prepared_text_is_noticed(paths: tuple[Path, Path]) -> None:
    write(paths, [row.lower().replace(".", " .") for row in TEXT.source[:300]], TEXT.target[:300])
    found = titles(examine(*paths))
    assert [title.split(": ", 2)[2] for title in found] == [
        "spaces before full stops (100 %): it looks tokenised",
        "no capital letters",
    ]


def test_rare_characters_of_a_large_alphabet(paths: tuple[Path, Path]) -> None:
    characters = [chr(0x4E00 + number) for number in range(2500)]
    rng = random.Random(0)
    rows = ["".join(rng.choices(characters[:2000], k=30)) for _ in range(3000)] + characters[2450:]
    write(paths, [f"{row}." for row in map(str, range(len(rows)))], rows)
    finding = find(examine(*paths), "so rare")
    assert finding.severity == "note"
    assert 45 <= finding.count <= 50  # 45 of 90,050 characters may be left out, and those seen once are 50


# ---------------------------------------------------------------- copies


def test_test_sentences_in_the_training_text(paths: tuple[Path, Path], tmp_path: Path) -> None:
    test = tmp_path / "test.src", tmp_path / "test.tgt"
    fresh = invent(100, seed=5)
    source, target = fresh.source[:], fresh.target[:]
    source[3], target[3] = TEXT.source[100], TEXT.target[100]
    source[4], target[4] = TEXT.source[200].upper().replace(" ", "  ") + "!", "Another translation."
    write(paths, *TEXT)
    write(test, source, target)
    finding = find(examine(*paths, test=test), "test sentences that are in the training text")
    assert (finding.severity, finding.count) == ("warning", 2)
    assert "1 with the same translation" in finding.title
    assert [example.where for example in finding.examples] == [
        f"{test[0]}:4 = {paths[0]}:101",
        f"{test[0]}:5 = {paths[0]}:201",
    ]
    write(test, TEXT.source[:50], TEXT.target[:50])
    assert find(examine(*paths, test=test, quick=True), "test sentences").severity == "fatal"


def test_equal_sides_are_a_warning_only(paths: tuple[Path, Path]) -> None:
    write(paths, TEXT.source[:100], TEXT.source[:100])
    diagnosis = examine(*paths)
    assert (find(diagnosis, "equal sides").severity, find(diagnosis, "equal sides").count) == ("warning", 100)
    assert not diagnosis.fatal


def test_duplicates_of_a_large_corpus_are_estimated(paths: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for few pairs, the share is found by a sample of the contents."""
    rows = list(range(2000)) + list(range(1000))
    write(paths, [TEXT.source[row] for row in rows], [TEXT.target[row] for row in rows])
    exact = find(examine(*paths), "duplicate pairs")
    assert exact.count == 1000
    monkeypatch.setattr(copies, "MOST_HELD", 400)
    monkeypatch.setattr("headway.data.checks.blocks.MOST_LINES", 256)
    assert abs(find(examine(*paths), "duplicate pairs (about").count - 1000) < 350
    assert Duplicates().one_in == 1


# ---------------------------------------------------------------- one file, many forms


def test_one_file_formats(tmp_path: Path) -> None:
    rows = list(zip(TEXT.source, TEXT.target, strict=True))
    table = tmp_path / "train.tsv.gz"
    table.write_bytes(gzip.compress("".join(f"{a}\t{b}\n" for a, b in rows).encode()))
    assert (examine(table).lines, titles(examine(table))) == ((2000, 2000), [])
    shifted = tmp_path / "shifted.tsv"
    shifted.write_text("".join(f"{a[0]}\t{b[1]}\n" for a, b in zip(rows[:-1], rows[1:], strict=True)))
    assert "paired with the translation of another line (100 %)" in examine(shifted).fatal[0].title
    objects = tmp_path / "train.jsonl"
    lines = [json.dumps({"translation": {"xx": a, "yy": b}}) for a, b in rows]
    objects.write_text("\n".join([*lines, "broken"]))
    diagnosis = examine(objects, names=Names(source_language="xx", target_language="yy"))
    assert [finding.title for finding in diagnosis.fatal] == [f"unreadable: not a pair in {objects}"]
    assert diagnosis.fatal[0].examples[0].where == f"{objects}:2001"


@pytest.mark.parametrize(
    ("row", "fields"),
    [
        (lambda n, a, b: f"{n}\t{a}\t{b}", ("", "")),
        (lambda n, a, b: f"{n}\t{a}\t{n + 7}\t{b}", ("", "")),
        (lambda n, a, b: f"{a}\t{b}\tCC-BY 2.0 (France) Attribution: tatoeba.org #{n}", ("", "")),
        (lambda n, a, b: f"{b}\t{n}x\t{a}", ("3", "1")),
    ],
    ids=["number first", "two numbers", "attribution", "given"],
)
def test_tables_of_more_columns(row: Any, fields: tuple[str, str], tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    rows = [row(n, *pair) for n, pair in enumerate(zip(TEXT.source[:200], TEXT.target[:200], strict=True))]
    path.write_text("".join(f"{line}\n" for line in rows), encoding="utf-8")
    found = [(one.source, one.target) for one in tsv(path, names=Names(*fields))]
    assert found == list(zip(TEXT.source[:200], TEXT.target[:200], strict=True))
    assert not examine(path, names=Names(*fields)).fatal


def test_a_table_of_another_form_names_the_option(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("a\tb\tc\n" * 3, encoding="utf-8")
    with pytest.raises(UsageError, match="3 columns, 2 are wanted.*--fields 1,2"):
        list(tsv(path))


def test_a_file_in_an_old_encoding_gets_the_command_that_converts_it(tmp_path: Path) -> None:
    source, target = tmp_path / "a.en", tmp_path / "a.cs"
    source.write_text("".join(f"{text}\n" for text in TEXT.source[:300]), encoding="utf-8")
    target.write_bytes("".join(f"{text} žluťoučký\n" for text in TEXT.target[:300]).encode("iso-8859-2"))
    (finding,) = (one for one in examine(source, target).findings if "not UTF-8" in one.title)
    assert str(target) in finding.title and str(source) not in finding.title
    command = finding.advice.removeprefix("convert the file: ").split(", or set")[0]
    subprocess.run(command, shell=True, check=True)
    assert "žluťoučký" in (tmp_path / "utf8.a.cs").read_text(encoding="utf-8")


# ---------------------------------------------------------------- the command


@pytest.mark.parametrize("text", ["1", "1,", ",2"])
def test_fields_come_in_pairs(text: str) -> None:
    with pytest.raises(UsageError, match="such as --fields 1,2"):
        both_fields(text)
    assert (both_fields("1,2"), both_fields("a.b, c"), both_fields("")) == (("1", "2"), ("a.b", "c"), ("", ""))


def test_the_command_tells_how_far_it_is_and_that_a_corpus_is_small(paths: tuple[Path, Path]) -> None:
    write(paths, *TEXT)
    seen: list[int] = []
    diagnosis = examine(*paths, progress=seen.append)
    assert seen == sorted(seen) and seen[-1] == len(TEXT.source)
    console = Console(width=100)
    with console.capture() as captured:
        show(diagnosis, console)
    assert f"this corpus is small: {len(TEXT.source):,} pairs" in captured.get()


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer()
    app.command()(doctor)
    return app


def test_the_command_writes_plain_text(app: typer.Typer, paths: tuple[Path, Path], tmp_path: Path) -> None:
    test = tmp_path / "test.src", tmp_path / "test.tgt"
    write(paths, ["\x1b[31m[bold]red", *TEXT.source[1:300]], TEXT.target[:300])
    write(test, *invent(20, seed=3))
    result = CliRunner().invoke(app, [*map(str, paths), "--test", *map(str, test)])
    assert result.exit_code == 0, result.output
    assert "\x1b" not in result.output
    assert "\\u001b[31m[bold]red" in result.output
    assert result.output.rstrip().endswith("fit for training")


def test_the_command_refuses_with_one_line(app: typer.Typer, paths: tuple[Path, Path]) -> None:
    write(paths, TEXT.source[:300], TEXT.target[:299])
    result = CliRunner().invoke(app, [*map(str, paths), "--json"])
    assert isinstance(result.exception, RefusedError)
    assert "\n" not in str(result.exception)
    told = json.loads(result.output)
    assert (told["fit"], told["lines"]) == (False, [300, 299])
    assert told["findings"][0]["severity"] == "fatal"


def test_colours_only_on_a_terminal(paths: tuple[Path, Path]) -> None:
    write(paths, TEXT.source[:300], TEXT.target[:299])
    diagnosis = examine(*paths)
    for terminal in (True, False):
        console = Console(force_terminal=terminal, width=100, color_system="standard" if terminal else None)
        with console.capture() as captured:
            show(diagnosis, console)
        assert ("\x1b" in captured.get()) == terminal


def test_excerpts_show_the_place_and_no_control_characters() -> None:
    assert excerpt("short\t\x00") == "short\\u0009\\u0000"
    assert excerpt("x" * 100 + "HERE" + "y" * 100, 100).count("HERE") == 1
    assert len(excerpt("z" * 500, 499)) == 61
