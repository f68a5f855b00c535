"""Word documents: the text of every paragraph is translated, its formatting follows the words."""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any

from headway.errors import UsageError
from headway.serve.plain_text import PlainText
from headway.serve.problems import Problem
from headway.serve.projection import Node, Projection
from headway.serve.tagged_sentence import Translated

COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # all that the standard allows
MOST_ENTRIES = 2000  # files in the archive
MOST_BYTES = 50_000_000  # of all of them, unpacked
MOST_XML = 10_000_000  # bytes of those that hold text
LARGEST_RATIO = 200  # unpacked bytes for one packed byte
MOST_NODES = 100  # changes of formatting in a paragraph that follow their words; with more they are given up
LONGEST = 20_000  # characters of such a paragraph, and bytes of the formatting that is repeated between them
W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
SPACE = "{http://www.w3.org/XML/1998/namespace}space"
_PARTS = re.compile(r"word/(?:document|header\d*|footer\d*|footnotes|endnotes|comments)\.xml")
_NO_XML = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_PLAIN = {f"{W}rPr", f"{W}t", f"{W}lastRenderedPageBreak"}  # all that a run of words holds
_SILENT = {f"{W}proofErr", f"{W}bookmarkStart", f"{W}bookmarkEnd"}  # may stand between two runs of one sentence


class RunSequence:
    """Runs that follow one another and hold nothing but words."""

    def __init__(self, runs: list[Any]) -> None:
        self.runs = runs
        self.pieces = [text_of(run) for run in runs]
        self.text = "".join(self.pieces)
        self.prose = PlainText(self.text)

    def replace(self, translations: Sequence[Translated]) -> None:
        """The longest run's formatting is the ground; that of the others follows their words."""
        text = self.prose.rendered(translations)
        if text == self.text:
            return
        ground = max(range(len(self.runs)), key=lambda index: len(self.pieces[index]))
        links = translations[0].alignment if len(translations) == 1 else ()
        placed = Projection(self.text, text, links).place(self.nodes(ground))
        self.write([(int(one.node.opening), one.start, one.end) for one in placed], ground, text)

    def nodes(self, ground: int) -> list[Node]:
        """The runs that look different from the ground, by their numbers."""
        found, at, usual = [], 0, style_of(self.runs[ground])
        for index, piece in enumerate(self.pieces):
            if piece.strip() and style_of(self.runs[index]) != usual:
                found.append(Node(str(index), "", at, at + len(piece)))
            at += len(piece)
        return found if len(found) <= MOST_NODES and max(len(self.text), len(usual)) <= LONGEST else []

    def write(self, placed: list[tuple[int, int, int]], ground: int, text: str) -> None:
        """New runs in place of the old ones."""
        made, at = [], 0
        for index, start, end in [*placed, (ground, len(text), len(text))]:
            made += [run_like(self.runs[ground], text[at:start]), run_like(self.runs[index], text[start:end])]
            at = end
        for run in filter(lambda run: run is not None, made):
            self.runs[0].addprevious(run)
        for run in self.runs:
            run.getparent().remove(run)


class Docx:
    """The parts of the archive that hold text are read; all others are copied as they are."""

    def __init__(self, data: bytes) -> None:
        etree = import_lxml()
        safe = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
        self.entries = entries(data)
        parts = {name: content for name, content in self.entries.items() if _PARTS.fullmatch(name)}
        if sum(map(len, parts.values())) > MOST_XML:
            raise Problem(413, f"the document holds more than {MOST_XML:,} bytes of text")
        try:
            self.trees = {name: etree.fromstring(content, safe) for name, content in parts.items()}
        except etree.XMLSyntaxError:
            raise Problem(400, "the file is not a Word document: its XML cannot be read") from None
        if "word/document.xml" not in self.trees:
            raise Problem(400, "the file is not a Word document: word/document.xml is missing")
        found = [stretch for tree in self.trees.values() for stretch in run_sequences(tree)]
        self.stretches = [one for one in found if any(map(str.isalpha, one.text))]

    @property
    def texts(self) -> list[str]:
        return [text for stretch in self.stretches for text in stretch.prose.texts]

    @property
    def aligned(self) -> bool:
        return any(len(stretch.runs) > 1 for stretch in self.stretches)

    def packed(self, translations: Sequence[Translated]) -> bytes:
        etree = import_lxml()
        done = iter(translations)
        for stretch in self.stretches:
            stretch.replace([next(done) for _ in stretch.prose.texts])
        written = {
            name: etree.tostring(tree, xml_declaration=True, encoding="UTF-8", standalone=True)
            for name, tree in self.trees.items()
        }
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in self.entries.items():
                archive.writestr(name, written.get(name, content))
        return stream.getvalue()


def import_lxml() -> Any:
    try:
        from lxml import etree  # pyright: ignore[reportAttributeAccessIssue]
    except ImportError:
        raise UsageError("reading Word documents needs one more package: pip install 'headway-mt[serve]'") from None
    return etree


def entries(data: bytes) -> dict[str, bytes]:
    """The files in an archive, unpacked in memory; never a bomb."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            check(archive.infolist(), len(data))
            return {info.filename: archive.read(info) for info in archive.infolist() if not info.is_dir()}
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, OSError, ValueError):
        raise Problem(400, "the file is not a Word document: the archive cannot be read") from None


def check(infos: list[zipfile.ZipInfo], packed: int) -> None:
    """Before anything is unpacked. `read` never gives more than the archive's list says."""
    if any(info.compress_type not in COMPRESSIONS for info in infos):
        raise Problem(400, "the file is not a Word document: it is compressed in another way")
    size = sum(info.file_size for info in infos)
    if len(infos) > MOST_ENTRIES or size > min(MOST_BYTES, max(LARGEST_RATIO * packed, 1 << 20)):
        raise Problem(413, "the file unpacks to more than a document of its size can hold")


def run_sequences(tree: Any) -> Iterator[RunSequence]:
    """In every paragraph, hyperlink and the like: runs side by side."""
    for parent in list(dict.fromkeys(run.getparent() for run in tree.iter(f"{W}r"))):
        runs: list[Any] = []
        for child in parent:
            is_words = child.tag == f"{W}r" and {inner.tag for inner in child} <= _PLAIN
            if is_words and text_of(child):
                runs.append(child)
            elif child.tag not in _SILENT and runs:
                yield RunSequence(runs)
                runs = []
        if runs:
            yield RunSequence(runs)


def text_of(run: Any) -> str:
    """The words of a run, also those behind an entity or a remark; what an entity stands for is never looked up."""
    return "".join((t.text or "") + "".join(inner.tail or "" for inner in t) for t in run.iter(f"{W}t"))


def style_of(run: Any) -> bytes:
    style = run.find(f"{W}rPr")
    return import_lxml().tostring(style, method="c14n", with_tail=False) if style is not None else b""


def run_like(run: Any, text: str) -> Any:
    """A run with this text and the same formatting; None for no text."""
    if not text:
        return None
    made = run.makeelement(f"{W}r", run.attrib, run.nsmap)
    style = run.find(f"{W}rPr")
    if style is not None:
        made.append(deepcopy(style))
    words = made.makeelement(f"{W}t")
    words.text = _NO_XML.sub("", text)
    words.set(SPACE, "preserve")
    made.append(words)
    return made
