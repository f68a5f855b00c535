"""Files keep everything but their words; files that lie are refused before they cost anything."""

from __future__ import annotations

import errno
import io
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import docx as python_docx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.serve import result_files as shelves
from headway.serve.documents import FORMATS, Document, open_document, suffix_of
from headway.serve.docx import Docx
from headway.serve.plain_text import PlainText
from headway.serve.problems import Problem
from headway.serve.result_files import ResultFiles
from headway.serve.subtitles import Subtitles
from headway.storage import temporary

SRT = (
    "1\r\n00:00:01,000 --> 00:00:02,500\r\nHello <i>there</i>,\r\nmy friend.\r\n\r\n"
    "2\r\n00:01:00,000 --> 00:01:04,000 X1:100 X2:200\r\n- Who is it?\r\n- It is me & you.\r\n\r\n3\r\n"
    "00:02:00,000 --> 00:02:01,000\r\n♪ ♪\r\n"
)


@dataclass(frozen=True)
class Said:
    text: str
    alignment: list[tuple[int, int]] = field(default_factory=list)


def shouted(document: Document) -> bytes:
    return document.packed([Said(text.upper()) for text in document.texts])


def refused(act: Callable[[], object]) -> int:
    with pytest.raises(Problem) as problem:
        act()
    return problem.value.status


# ---------------------------------------------------------------- text


@given(st.text(st.sampled_from("ab .\n\r\t\u2028!")))
def test_prose_keeps_all_but_words(text: str) -> None:
    prose = PlainText(text)
    assert prose.rendered([Said(one) for one in prose.texts]) == text
    assert prose.rendered([Said(one.upper()) for one in prose.texts]) == text.upper()


@pytest.mark.parametrize("text", ["word " * 3000, "x" * 5000, "One sentence. " * 400, "這" * 4001])
def test_long_lines_are_cut_and_joined_again(text: str) -> None:
    prose = PlainText(text)
    assert max(map(len, prose.texts)) <= 2000 and len(prose.texts) > 1
    assert prose.rendered([Said(one) for one in prose.texts]) == text


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_text_files_keep_encoding_and_line_ends(encoding: str) -> None:
    data = "Grüße\r\n\r\n  two\n".encode(encoding)
    assert shouted(open_document(".txt", data)) == "GRÜSSE\r\n\r\n  TWO\n".encode(encoding)


def test_subtitles_keep_numbers_times_tags_and_line_counts() -> None:
    made = shouted(open_document(".srt", SRT.encode())).decode()
    expected = (
        SRT.replace("Hello <i>there</i>,\r\nmy friend.", "HELLO <i>THERE</i>,\r\nMY FRIEND.")
        .replace("Who is it?", "WHO IS IT?")
        .replace("It is me & you.", "IT IS ME & YOU.")
    )
    assert made == expected
    assert Subtitles(SRT).texts[0] == "Hello there, my friend."  # one sentence on two lines


def test_html_files_keep_their_markup() -> None:
    page = "<!doctype html><html><head><title>a page</title><script>let a</script></head><body><p>hi <b>you</b></p>"
    made = shouted(open_document(".html", page.encode())).decode()
    assert made == page.replace("a page", "A PAGE").replace("hi", "HI").replace("you", "YOU")


# ---------------------------------------------------------------- Word


def word_file() -> bytes:
    document = python_docx.Document()
    document.add_heading("the title", 1)
    paragraph = document.add_paragraph("a plain ")
    paragraph.add_run("bold").bold = True
    paragraph.add_run(" and an ")
    paragraph.add_run("italic").italic = True
    paragraph.add_run(" word.")
    document.add_table(1, 2).cell(0, 1).text = "in a cell"
    document.sections[0].header.paragraphs[0].text = "on every page"
    stream = io.BytesIO()
    document.save(stream)
    return stream.getvalue()


def reopened(data: bytes) -> python_docx.document.Document:
    return python_docx.Document(io.BytesIO(data))


def test_word_documents_keep_formatting_tables_and_headers() -> None:
    made = reopened(shouted(open_document(".docx", word_file())))
    title, paragraph = made.paragraphs
    assert title.text == "THE TITLE" and title.style is not None and title.style.name == "Heading 1"
    assert paragraph.text == "A PLAIN BOLD AND AN ITALIC WORD."
    assert [run.text for run in paragraph.runs if run.bold] == ["BOLD"]
    assert [run.text for run in paragraph.runs if run.italic] == ["ITALIC"]
    assert made.tables[0].cell(0, 1).text == "IN A CELL"
    assert made.sections[0].header.paragraphs[0].text == "ON EVERY PAGE"


def test_formatting_follows_its_words() -> None:
    document = Docx(word_file())
    texts = {text: Said(text) for text in document.texts}
    links = [(5, 0), (0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (6, 6)]
    texts["a plain bold and an italic word."] = Said("italienisch a schlicht fett und ein Wort.", links)
    paragraph = reopened(document.packed([texts[text] for text in document.texts])).paragraphs[1]
    assert [run.text for run in paragraph.runs if run.bold] == ["fett"]
    assert [run.text for run in paragraph.runs if run.italic] == ["italienisch"]
    assert paragraph.text == "italienisch a schlicht fett und ein Wort."


def test_word_documents_without_change_are_the_same() -> None:
    document = Docx(word_file())
    made = document.packed([Said(text) for text in document.texts])
    before, after = (zipfile.ZipFile(io.BytesIO(data)) for data in (word_file(), made))
    with before, after:
        assert after.namelist() == before.namelist()
    assert [p.text for p in reopened(made).paragraphs] == [p.text for p in reopened(word_file()).paragraphs]


def test_what_xml_cannot_hold_is_left_out() -> None:
    document = Docx(word_file())
    made = document.packed([Said("a\0b\x1b\xa0\ufffe\u3000c") for _ in document.texts])
    assert reopened(made).paragraphs[0].text == "ab\xa0\u3000c"


def with_body(text: str, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as made:
        made.writestr("word/document.xml", text)
    return stream.getvalue()


def archive(**files: str) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in files.items():
            made.writestr(name.replace("__", "/"), content)
    return stream.getvalue()


W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
LAUGHS = '<!DOCTYPE a [<!ENTITY a "haha"><!ENTITY b "' + "&a;" * 99 + '"><!ENTITY c "' + "&b;" * 99 + '">]>'
LIARS = {
    "no archive": b"PK\x03\x04 but nothing else",
    "another archive": archive(a="b"),
    "not XML": archive(**{"word__document.xml": "<w:document"}),
    "a bomb": archive(**{"word__document.xml": " " * 60_000_000}),
    "many files": archive(**{f"f{number}": "" for number in range(2001)}),
    "much text": archive(**{"word__document.xml": f"<w:d {W}>{'word ' * 3_000_000}</w:d>"}),
    "a broken part": word_file()[:-30] + b"\0" * 30,
    "text": b"hello",
    "LZMA": with_body(f"<w:d {W}/>", zipfile.ZIP_LZMA),
    "bzip2": with_body(f"<w:d {W}/>", zipfile.ZIP_BZIP2),
    "damaged LZMA": with_body(f"<w:d {W}/>", zipfile.ZIP_LZMA).replace(b"\x5d\x00\x00\x80\x00", b"\xff" * 5),
}


@settings(max_examples=300)
@given(st.data())
def test_damaged_documents_are_opened_or_refused(data: st.DataObject) -> None:
    whole = bytearray(with_body(f"<w:d {W}><w:p><w:r><w:t>some words</w:t></w:r></w:p></w:d>"))
    for place in data.draw(st.lists(st.integers(0, len(whole) - 1), min_size=1, max_size=4)):
        whole[place] = data.draw(st.integers(0, 255))
    try:
        shouted(open_document(".docx", bytes(whole)))
    except Problem as problem:
        assert problem.status in (400, 413)


@pytest.mark.parametrize("kind", LIARS)
def test_files_that_are_no_word_documents_are_refused(kind: str) -> None:
    assert refused(lambda: open_document(".docx", LIARS[kind])) in (400, 413)


def test_entities_are_not_expanded(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    for text in (LAUGHS, f'<!DOCTYPE a [<!ENTITY c SYSTEM "file://{tmp_path}/secret">]>'):
        data = archive(**{"word__document.xml": f"{text}<w:d {W}><w:p><w:r><w:t>x &c; y</w:t></w:r></w:p></w:d>"})
        assert b"secret" not in shouted(open_document(".docx", data))
        assert not any("ha" in text for text in Docx(data).texts)
        assert Docx(data).texts == ["x  y"]  # what stands behind the entity is there
        assert b"X  Y" in zipfile.ZipFile(io.BytesIO(shouted(Docx(data)))).read("word/document.xml")


# ---------------------------------------------------------------- names


@pytest.mark.parametrize("name", ["", "x", "x.exe", "x.docx.exe", "../../x.pdf", "x.txt\0.exe", ".txt/", "x.html/../y"])
def test_only_known_kinds_are_taken(name: str) -> None:
    assert refused(lambda: suffix_of(name)) == 400


@pytest.mark.parametrize("suffix", FORMATS)
def test_empty_files_are_refused(suffix: str) -> None:
    assert refused(lambda: open_document(suffix, b"")) == 400


@pytest.mark.parametrize("suffix", [".txt", ".srt", ".html"])
def test_files_in_other_encodings_are_refused(suffix: str) -> None:
    assert refused(lambda: open_document(suffix, "Grüße".encode("latin-1"))) == 400


def test_long_files_are_refused() -> None:
    assert refused(lambda: open_document(".txt", b"a" * 1_000_001)) == 413
    assert refused(lambda: open_document(".srt", b"no times, no subtitles")) == 400


STEPS = ["..", ".", "", "~", "%2e%2e", "..%2f", "..\\", "\0", "C:", "//host/share", "etc", "passwd", "x.txt"]


@given(st.lists(st.sampled_from(STEPS), max_size=6))
def test_no_name_leads_out_of_the_shelf(steps: list[str]) -> None:
    shelf = ResultFiles()
    shelf.put(b"here", "a.txt", ".txt")
    assert refused(lambda: shelf.get("/".join(steps))) == 404


def test_a_kept_file_is_private_and_has_a_harmless_title() -> None:
    shelf = ResultFiles()
    name = shelf.put(b"here", '../a "b"\r\nX: y.txt', ".txt")
    kept = shelf.get(name)
    assert re.fullmatch(r"[0-9a-f]{32}\.txt", name) and kept.path.read_bytes() == b"here"
    assert shelf.folder.stat().st_mode & 0o077 == 0
    assert re.fullmatch(r"[\w.-]+", kept.title)


def test_files_go_when_their_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    shelf, now = ResultFiles(), [0.0]
    monkeypatch.setattr(shelves.time, "monotonic", lambda: now[0])
    name = shelf.put(b"here", "a.txt", ".txt")
    path = shelf.get(name).path
    now[0] = shelf.kept + 1
    assert refused(lambda: shelf.get(name)) == 404 and not path.exists()


def test_the_oldest_give_way() -> None:
    shelf = ResultFiles(most=10)
    first, second = shelf.put(b"123456", "a.txt", ".txt"), shelf.put(b"123456", "b.txt", ".txt")
    assert refused(lambda: shelf.get(first)) == 404 and shelf.get(second).size == 6


def test_a_full_disk_refuses_a_file_and_keeps_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    shelf = ResultFiles()
    name = shelf.put(b"here", "a.txt", ".txt")

    def full(path: Path, data: bytes) -> int:
        with path.open("wb") as file:
            file.write(data[:2])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(Path, "write_bytes", full)
        assert refused(lambda: shelf.put(b"more", "b.txt", ".txt")) == 507
    assert shelf.get(name).path.read_bytes() == b"here"
    assert [path.name for path in shelf.folder.iterdir() if path.suffix] == [name]  # no half of a file
    with monkeypatch.context() as disk:
        disk.setattr(temporary.tempfile, "mkdtemp", lambda **_: full(Path("/dev/null"), b""))
        assert refused(lambda: ResultFiles().put(b"x", "a.txt", ".txt")) == 507


def test_folders_of_killed_processes_go_and_those_of_living_ones_stay(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(temporary.tempfile, "tempdir", str(tmp_path))
    program = (
        "import os, sys; from headway.storage.temporary import Folder; folder = Folder('files');"
        "(folder.path / 'text').write_text('x'); print(folder.path, flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", program]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
    ) as process:
        assert process.stdout is not None
        theirs = Path(process.stdout.readline().strip())
        (tmp_path / "headway-files-link").symlink_to(theirs)
        ours = temporary.Folder("files")
        assert (theirs / "text").exists()
        process.kill()
        process.wait()
    old = tmp_path / "headway-files-old"  # of a process that was killed before it had a lock
    old.mkdir()
    os.utime(old, (0, 0))
    new = temporary.Folder("files")
    assert not theirs.exists() and not old.exists() and ours.path.exists() and new.path.exists()
    for one in (ours, new):
        one.remove()
        assert not one.path.exists()


def test_the_folder_goes_with_the_shelf() -> None:
    shelf = ResultFiles()
    shelf.put(b"here", "a.txt", ".txt")
    folder = shelf.folder
    del shelf
    assert not folder.exists()
