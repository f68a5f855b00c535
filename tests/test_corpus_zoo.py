"""Every kind of broken file a user can bring: one line says what is wrong and where, or the counts are exact."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import re
import socket
import time
import tracemalloc
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from headway.data.archives import open_bytes
from headway.data.corpus import Data, check_files, pairs
from headway.data.counts import Counts
from headway.data.formats import lines
from headway.errors import HeadwayError

zstandard = pytest.importorskip("zstandard")

Answer = tuple[int, str]
Build = Callable[[Path], Data]

GOOD = [f"sentence number {number} of the good side" for number in range(1, 6)]


def read(data: Data) -> Answer:
    """What a user would see: the exit code and one line; fast, whatever comes."""
    counts = Counts()
    start = time.monotonic()
    try:
        for _ in pairs(data, counts):
            pass
        answer = (0, counts.summary())
    except HeadwayError as error:
        answer = (error.exit_code, str(error))
    assert time.monotonic() - start < 2
    assert "\n" not in answer[1]
    return answer


def write(path: Path, content: bytes | list[str]) -> str:
    path.write_bytes(content if isinstance(content, bytes) else ("\n".join(content) + "\n").encode())
    return str(path)


def beside(content: bytes, count: int = 5) -> Build:
    """A source file with these bytes, beside a good target of so many lines."""

    def build(folder: Path) -> Data:
        good = [f"good line {number} for the target" for number in range(count)]
        return Data(source=write(folder / "bad.src", content), target=write(folder / "good.tgt", good))

    return build


def with_line(bad: bytes) -> bytes:
    """Five lines, the third of them bad."""
    return b"\n".join([b"one good line", b"two good lines", bad, b"four good lines", b"five good lines"]) + b"\n"


# ---------------------------------------------------------------- bytes that are not UTF-8

NOT_UTF8 = {
    "lone continuation": b"abc \x80 def",
    "lone start of two": b"abc \xc3 def",
    "cut start of three": b"abc \xe2\x82 def",
    "cut start of four": b"abc \xf0\x9f\x98 def",
    "overlong of two": b"abc \xc0\xaf def",
    "overlong of three": b"abc \xe0\x80\xaf def",
    "surrogate": b"abc \xed\xa0\x80 def",
    "beyond the last code point": b"abc \xf4\x90\x80\x80 def",
    "byte fe": b"abc \xfe def",
    "byte ff": b"abc \xff def",
    "latin-1": "Grüße aus Köln".encode("latin-1"),
    "windows-1252": "“quoted”".encode("cp1252"),
    "cut at the end of the line": b"abc \xe2",
}


@pytest.mark.parametrize("bad", NOT_UTF8.values(), ids=list(NOT_UTF8))
def test_not_utf8(tmp_path: Path, bad: bytes) -> None:
    data = beside(with_line(bad))(tmp_path)
    with pytest.raises(UnicodeDecodeError) as oracle:
        bad.decode("utf-8")
    code, line = read(data)
    assert code == 2
    assert line.startswith(f"{data.source}:3: not UTF-8 at byte {oracle.value.start + 1} (0x")

    code, line = read(Data(data.source, data.target, invalid="skip"))
    assert (code, line) == (0, f"5 pairs read, 4 kept, 1 dropped: 1 not UTF-8 ({data.source}:3)")

    counts = Counts()
    kept = list(pairs(Data(data.source, data.target, invalid="replace"), counts))
    assert (counts.kept, counts.repaired) == (5, 1)
    assert kept[2].source == bad.decode("utf-8", "replace")


# ---------------------------------------------------------------- odd but readable: the counts are exact

ODD = {
    "byte order mark": (b"\xef\xbb\xbf" + with_line(b"three"), "5 pairs read, 5 kept, 0 dropped"),
    "windows line ends": (with_line(b"three").replace(b"\n", b"\r\n"), "5 pairs read, 5 kept, 0 dropped"),
    "no last line end": (with_line(b"three")[:-1], "5 pairs read, 5 kept, 0 dropped"),
    "lone carriage return": (with_line(b"three\rand a half"), "5 pairs read, 5 kept, 0 dropped"),
    "line separator": (with_line("three\u2028half".encode()), "5 pairs read, 5 kept, 0 dropped"),
    "paragraph separator": (with_line("three\u2029half".encode()), "5 pairs read, 5 kept, 0 dropped"),
    "next line": (with_line("three\u0085half".encode()), "5 pairs read, 5 kept, 0 dropped"),
    "form feed and vertical tab": (with_line(b"three\fhalf\vmore"), "5 pairs read, 5 kept, 0 dropped"),
    "file separators": (with_line(b"three\x1c\x1d\x1ehalf"), "5 pairs read, 5 kept, 0 dropped"),
    "right-to-left marks": (with_line("three \u200f\u202eevif".encode()), "5 pairs read, 5 kept, 0 dropped"),
    "zero-width": (with_line("th\u200bree\ufeff".encode()), "5 pairs read, 5 kept, 0 dropped"),
    "escape sequences": (with_line(b"\x1b[31mthree\x1b[0m"), "5 pairs read, 5 kept, 0 dropped"),
    "many marks on one letter": (with_line(("e" + "\u0301" * 500).encode()), None),
    "emoji": (with_line("👩‍👩‍👧‍👦 three".encode()), "5 pairs read, 5 kept, 0 dropped"),
    "blank on one side": (with_line(b""), "5 pairs read, 4 kept, 1 dropped: 1 empty (SOURCE:3)"),
    "spaces on one side": (with_line(b" \t\xc2\xa0 "), "5 pairs read, 4 kept, 1 dropped: 1 empty (SOURCE:3)"),
}


@pytest.mark.parametrize(("content", "summary"), ODD.values(), ids=list(ODD))
def test_odd_but_readable(tmp_path: Path, content: bytes, summary: str | None) -> None:
    data = beside(content)(tmp_path)
    check_files(data)
    code, line = read(data)
    assert code == 0
    assert line.startswith("5 pairs read")
    assert summary is None or line == summary.replace("SOURCE", data.source)


def test_line_ends_are_removed_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "ends"
    path.write_bytes(b"\xef\xbb\xbfa\r\nb\r\r\n c \n\xef\xbb\xbfd\n\r\ne\r")
    assert [line.text for line in lines(path)] == ["a", "b\r", " c ", "\ufeffd", "", "e"]


# ---------------------------------------------------------------- files that cannot be text


def cut(content: bytes) -> bytes:
    return content[: len(content) * 2 // 3]


def damaged(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes(byte ^ 0xFF for byte in content[middle : middle + 8]) + content[middle + 8 :]


def zst(content: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(content)


def zip_of(content: bytes) -> bytes:
    import io

    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("text", content)
    return stream.getvalue()


NOISE = "".join(f"{number * 7919 % 100_003} words of number {number}\n" for number in range(20_000)).encode()
ZEROS = bytes(40 << 20)

BROKEN = {
    "empty": (b"", r":1: the file is empty"),
    "only a byte order mark": (b"\xef\xbb\xbf", r":1: the file is empty"),
    "utf-16 little endian": ("\n".join(GOOD).encode("utf-16"), r":1: is UTF-16, not UTF-8"),
    "utf-16 big endian": (b"\xfe\xff" + "\n".join(GOOD).encode("utf-16-be"), r":1: is UTF-16, not UTF-8"),
    "utf-16 without a mark": ("\n".join(GOOD).encode("utf-16-le"), r":1: holds a NUL character"),
    "utf-32": ("\n".join(GOOD).encode("utf-32"), r":1: is UTF-16"),
    "NUL": (with_line(b"three\0half"), r":3: holds a NUL character"),
    "only blank lines": (b"\n \n\t\n\n\n", r":1: no usable pair: 5 pairs read, 0 kept, 5 dropped: 5 empty"),
    "old Mac line ends": (b"one\rtwo\rthree\rfour\rfive\r", r"has 1 lines but .* has 5"),
    "one line too few": (with_line(b"")[: -len(b"five good lines\n")], r"tgt:5: .* has 4 lines but .* has 5"),
    "one line too many": (with_line(b"three") + b"six\n", r"src:6: .* has 6 lines but .* has 5"),
    "a blank line too many": (with_line(b"three") + b"\n", r"src:6: .* has 6 lines but .* has 5"),
    "zip": (zip_of(b"text"), r":1: is a zip archive; unpack"),
    "bzip2": (bz2.compress(b"text"), r":1: is packed with bzip2; unpack"),
    "7z": (b"7z\xbc\xaf\x27\x1c" + bytes(50), r":1: is a 7z archive"),
    "gz cut off": (cut(gzip.compress(NOISE)), r":\d+: the compressed file is truncated near here"),
    "xz cut off": (cut(lzma.compress(NOISE)), r":\d+: the compressed file is truncated near here"),
    "zst cut off": (cut(zst(NOISE)), r":\d+: the compressed file is truncated near here"),
    "gz damaged": (
        damaged(gzip.compress(NOISE)),
        r":\d+: the compressed file is (damaged|truncated) near here|:\d+: not UTF-8",
    ),
    "xz damaged": (damaged(lzma.compress(NOISE)), r":\d+: the compressed file is damaged near here"),
    "zst damaged": (damaged(zst(NOISE)), r":\d+: the compressed file is damaged near here|:\d+: not UTF-8"),
    "gz of nothing": (gzip.compress(b""), r":1: the file is empty"),
    "gz of utf-16": (gzip.compress("text".encode("utf-16")), r":1: is UTF-16"),
    "gz bomb": (gzip.compress(ZEROS), r":\d+: decompresses to more than 200 times its size"),
    "xz bomb": (lzma.compress(ZEROS, preset=0), r":\d+: decompresses to more than 200 times its size"),
    "zst bomb": (zst(ZEROS), r":\d+: decompresses to more than 200 times its size"),
    "gz bomb of lines": (gzip.compress(b"\n" * (40 << 20)), r"decompresses to more than 200 times|has \d+ lines but"),
}


@pytest.mark.parametrize(("content", "wanted"), BROKEN.values(), ids=list(BROKEN))
def test_broken_file(tmp_path: Path, content: bytes, wanted: str) -> None:
    data = beside(content)(tmp_path)
    code, line = read(data)
    assert code == 2
    assert line.startswith(str(tmp_path))
    assert re.search(wanted, line), line


def test_different_counts_are_told_before_any_work(tmp_path: Path) -> None:
    data = beside(with_line(b"three") + b"six\n")(tmp_path)
    with pytest.raises(HeadwayError, match=r"has 6 lines but .* has 5; `headway doctor") as told:
        check_files(data)
    assert told.value.exit_code == 2


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gz"])
def test_one_huge_line_costs_little_memory(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    random = os.urandom(1 << 20).hex().encode()  # 2 MiB that do not pack well
    data = beside(pack(random * 10), count=1)(tmp_path)
    tracemalloc.start()
    code, line = read(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (code, peak < 4 << 20) == (2, True)
    assert line == (
        f"{data.source}:1: no usable pair: 1 pairs read, 0 kept, 1 dropped: 1 longer than 32 KiB ({data.source}:1)"
    )


@pytest.mark.parametrize("length", [32766, 32767, 32768, 32769, 32770])
@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf"], ids=["", "mark"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""], ids=["lf", "crlf", "none"])
def test_the_longest_line_is_exact(tmp_path: Path, length: int, start: bytes, end: bytes) -> None:
    path = tmp_path / "long"
    path.write_bytes(start + b"x" * length + end)
    (line,) = lines(path)
    assert (line.text == "x" * length) == (length <= 32768)
    assert (line.problem is None) == (length <= 32768)


PACKED = {
    "gz": gzip.compress,
    "xz": lzma.compress,
    "zst": zst,
    "gz in two parts": lambda content: gzip.compress(content[:20]) + gzip.compress(content[20:]),
    "xz in two parts": lambda content: lzma.compress(content[:20]) + lzma.compress(content[20:]),
    "zst in two parts": lambda content: zst(content[:20]) + zst(content[20:]),
}


@pytest.mark.parametrize("pack", PACKED.values(), ids=list(PACKED))
def test_packed_files_read_like_plain_ones(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "no suffix says what it is"
    path.write_bytes(pack(NOISE))
    with open_bytes(path) as stream:
        assert stream.read() == NOISE


# ---------------------------------------------------------------- things that are not files


def fifo(path: Path) -> None:
    os.mkfifo(path)


def loop(path: Path) -> None:
    path.symlink_to(path)


def listening(path: Path) -> None:
    socket.socket(socket.AF_UNIX).bind(path.name)  # the name alone: a socket's whole path must be short


STRANGE = {
    "directory": (lambda path: path.mkdir(), "is a directory"),
    "pipe": (fifo, "is a pipe"),
    "socket": (listening, "is a socket"),
    "link to itself": (loop, "a symbolic link that leads back to itself"),
    "link to nothing": (lambda path: path.symlink_to("nowhere"), "no such file"),
    "link to a device": (lambda path: path.symlink_to("/dev/null"), "is a device"),
    "missing": (lambda path: path.unlink(missing_ok=True), "no such file"),
}


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize(("make", "wanted"), STRANGE.values(), ids=list(STRANGE))
@pytest.mark.parametrize("side", ["source", "target"])
def test_not_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], None], wanted: str, side: str
) -> None:
    monkeypatch.chdir(tmp_path)
    strange = tmp_path / "strange"
    make(strange)
    good = write(tmp_path / "good", GOOD)
    data = Data(source=str(strange), target=good) if side == "source" else Data(source=good, target=str(strange))
    code, line = read(data)
    assert (code, line.startswith(f"{strange}: {wanted}")) == (2, True), line


@pytest.mark.parametrize("name", ["a\0b", "x" * 5000, "good/below"], ids=["nul", "long", "below a file"])
def test_impossible_names(tmp_path: Path, name: str) -> None:
    good = write(tmp_path / "good", GOOD)
    code, _ = read(Data(source=str(tmp_path / name), target=good))
    assert code == 2


def test_no_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = beside(with_line(b"three"))(tmp_path)
    Path(data.source).chmod(0)
    if os.geteuid() == 0:  # root may read anything: let the system's answer be played

        def refuse(*_: object, **__: object) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr("headway.data.archives.FileIO", refuse)
    code, line = read(data)
    monkeypatch.undo()
    assert (code, line) == (2, f"{data.source}: no permission to read it")


def test_one_file_without_a_target(tmp_path: Path) -> None:
    path = write(tmp_path / "train.en", GOOD)
    code, line = read(Data(source=path))
    assert code == 2
    assert line.startswith(f"{path}: where is its target?")


# ---------------------------------------------------------------- tables


@pytest.mark.parametrize(
    ("row", "wanted"),
    [
        ("only one column", r":2: 1 column, 2 are wanted"),
        ("one\ttwo\tthree", r':2: 3 columns, 2 are wanted.*source_field = "1"'),
        ("one\t\ttwo", r":2: 3 columns"),
    ],
)
def test_tsv_with_a_bad_row(tmp_path: Path, row: str, wanted: str) -> None:
    path = write(tmp_path / "rows.tsv", ["a\tb", row, "c\td"])
    code, line = read(Data(source=path))
    assert code == 2
    assert re.search(re.escape(path) + wanted, line), line
    summary = f"3 pairs read, 2 kept, 1 dropped: 1 not a pair ({path}:2)"
    assert read(Data(source=path, invalid="skip")) == (0, summary)


def test_tsv_with_chosen_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.tsv", ["1\tein\tone", "2\tzwei\ttwo"])
    data = Data(source=path, source_field="3", target_field="2")
    assert [pair[:2] for pair in pairs(data, Counts())] == [("one", "ein"), ("two", "zwei")]
    code, line = read(Data(source=path, source_field="4", target_field="2"))
    assert (code, "column 4 is wanted" in line) == (2, True)
    code, line = read(Data(source=path, source_field="english", target_field="2"))
    assert (code, "two column numbers" in line) == (2, True)


BAD_JSON = {
    "not json": ("{source: 1}", "not JSON"),
    "cut off": ('{"source": "a", "targ', "not JSON"),
    "too deep": ("[" * 9000, "not JSON"),
    "huge number": ("9" * 9000, "not (JSON|a JSON object)"),
    "a list": ('["a", "b"]', "not a JSON object"),
    "no target": ('{"source": "a"}', 'no target: a text under "target" is wanted, the fields are source'),
    "no fields": ("{}", "no source: .* the fields are none"),
    "a number": ('{"source": 1, "target": "b"}', "no source"),
    "null": ('{"source": null, "target": "b"}', "no source"),
    "half a surrogate pair": (
        r'{"source": "\ud800", "target": "b"}',
        "source: holds a NUL or half of a surrogate pair",
    ),
    "nul": (r'{"source": "a\u0000", "target": "b"}', "source: holds a NUL"),
    "language not set": ('{"translation": {"en": "a", "de": "b"}}', "languages en, de: set data.source_language"),
    "blank": ("", "not JSON"),
}


@pytest.mark.parametrize(("row", "wanted"), BAD_JSON.values(), ids=list(BAD_JSON))
def test_jsonl_with_a_bad_row(tmp_path: Path, row: str, wanted: str) -> None:
    good = json.dumps({"source": "a", "target": "b"})
    path = write(tmp_path / "rows.jsonl", [good, row, good])
    code, line = read(Data(source=path))
    assert code == 2
    assert re.search(re.escape(path) + ":2: " + wanted, line), line
    summary = f"3 pairs read, 2 kept, 1 dropped: 1 not a pair ({path}:2)"
    assert read(Data(source=path, invalid="skip")) == (0, summary)


@pytest.mark.parametrize(
    ("row", "data"),
    [
        ({"source": "a\nb", "target": "c"}, Data()),
        ({"translation": {"en": "a b", "de": "c"}}, Data(source_language="en", target_language="de")),
        ({"x": {"y": "a b"}, "z": "c"}, Data(source_field="x.y", target_field="z")),
    ],
)
def test_jsonl_fields(tmp_path: Path, row: dict[str, object], data: Data) -> None:
    path = write(tmp_path / "rows.jsonl.gz", gzip.compress(json.dumps(row).encode()))
    (pair,) = pairs(replace(data, source=path), Counts())
    assert pair[:2] == ("a b", "c")


# ---------------------------------------------------------------- translation memories


def tmx(body: str, start: str = "") -> bytes:
    return (
        f'<?xml version="1.0"?>\n{start}<tmx version="1.4"><header srclang="en"/><body>\n{body}\n</body></tmx>'.encode()
    )


def unit(source: str, target: str) -> str:
    return f'<tu><tuv xml:lang="en"><seg>{source}</seg></tuv><tuv xml:lang="de"><seg>{target}</seg></tuv></tu>'


LAUGHS = '<!DOCTYPE tmx [<!ENTITY a "ha"><!ENTITY b "' + "&a;" * 99 + '"><!ENTITY c "' + "&b;" * 99 + '">]>\n'
OUTSIDE = '<!DOCTYPE tmx [<!ENTITY passwords SYSTEM "file:///etc/passwd">]>\n'

BAD_TMX = {
    "not xml": (b"one\ntwo\n", r":1: not a TMX file"),
    "cut off": (tmx(unit("a", "b"))[:-20], r":\d+: not a TMX file"),
    "unclosed element": (tmx(unit("a", "b") + "\n<tu><tuv>"), r":\d+: not a TMX file"),
    "not utf-8": (tmx(unit("Gr\u00fc\u00dfe", "b")).decode().encode("latin-1"), r":\d+: not a TMX file"),
    "no units": (tmx(""), r":1: the file has no translation unit"),
    "another language": (tmx(unit("a", "b").replace('"de"', '"fr"')), r"target_language is 'de'.* are en, fr"),
    "billion laughs": (tmx(unit("&c;", "b"), LAUGHS), r":\d+: uses the entity &c;, which is not expanded"),
    "external entity": (tmx(unit("&passwords;", "b"), OUTSIDE), r":\d+: uses the entity &passwords;"),
    "unknown entity": (tmx(unit("&nbsp;", "b")), r":\d+: (not a TMX file|uses the entity)"),
    "huge text": (tmx(unit("x" * (11 << 20), "b")), r":\d+: not a TMX file|longer than 32 KiB"),
    "deep": (tmx("<tu>" + "<tuv>" * 5000), r":\d+: not a TMX file"),
}


@pytest.mark.parametrize(("content", "wanted"), BAD_TMX.values(), ids=list(BAD_TMX))
def test_bad_tmx(tmp_path: Path, content: bytes, wanted: str) -> None:
    pytest.importorskip("lxml")
    path = write(tmp_path / "memory.tmx", content)
    code, line = read(Data(source=path, source_language="en", target_language="de"))
    assert code == 2
    assert re.search(wanted, line), line
    assert "root:" not in line


def test_tmx_units(tmp_path: Path) -> None:
    pytest.importorskip("lxml")
    body = "\n".join(
        [
            unit("plain", "schlicht"),
            unit("with <bpt i='1'>&lt;b&gt;</bpt>marks<ept i='1'/> &amp; <hi>more</hi>", "zwei\n    Zeilen"),
            unit("american", "x").replace('"en"', '"EN_us"'),
            unit("only english", "x").replace('"de"', '"fr"'),
            unit("", "leer"),
        ]
    )
    doctype = '<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n'
    path = write(tmp_path / "memory.tmx.xz", lzma.compress(tmx(body, doctype).decode().encode()))
    counts = Counts()
    data = Data(source=path, source_language="en", target_language="de")
    found = [pair[:2] for pair in pairs(data, counts)]
    assert found == [("plain", "schlicht"), ("with marks & more", "zwei Zeilen"), ("american", "x")]
    assert counts.dropped == {"without one of the two languages": 1, "empty": 1}
    code, line = read(Data(source=path))
    assert (code, "set data.source_language; the languages here are de, en" in line) == (2, True)


def test_tmx_in_utf16(tmp_path: Path) -> None:
    pytest.importorskip("lxml")
    text = tmx(unit("größer", "bigger")).decode().replace('"1.0"', '"1.0" encoding="UTF-16"')
    path = write(tmp_path / "memory.tmx", text.encode("utf-16"))
    (pair,) = pairs(Data(source=path, source_language="en", target_language="de"), Counts())
    assert pair[:2] == ("größer", "bigger")
