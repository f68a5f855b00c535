"""The catalogue of public corpora for `headway data`, read from catalogue.toml; unknown values are left empty."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from headway import config
from headway.errors import UsageError

LISTED = Path(__file__).with_name("catalogue.toml")

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_TEXT = re.compile(r"(train|dev|test)\.[a-zA-Z]{2,8}")
_SHA256 = re.compile(r"([0-9a-f]{64})?")
_LANGUAGE = re.compile(r"[a-zA-Z]{2,8}")


@dataclass(frozen=True)
class Text:
    """One text file of a corpus, as it will be in the folder."""

    name: str  # split and language, for example train.en, dev.de, test.de
    member: str = ""  # name inside the zip archive
    sha256: str = ""  # of the uncompressed text; empty: unknown

    def __post_init__(self) -> None:
        if not _TEXT.fullmatch(self.name):
            raise ValueError(
                f"text {self.name!r}: the name must be train, dev or test, a dot and the language, such as train.en"
            )
        _check_sha256(self.sha256)


@dataclass(frozen=True)
class Download:
    """One file on a server, and the texts in it. Its suffix is its compression: .gz, .zip or none."""

    file: str  # URL relative to the entry's base
    texts: tuple[Text, ...]
    sha256: str = ""  # of the file on the server; empty: unknown
    most: int = 2 << 30  # most bytes of the file on the server; a larger one is refused

    def __post_init__(self) -> None:
        _check_sha256(self.sha256)
        if self.most < 1:
            raise ValueError(f"file {self.file!r}: most is {self.most}; it must be at least 1")
        zipped = self.file.endswith(".zip")
        if not self.texts or not re.fullmatch(r"[\w./-]+", self.file) or self.name in ("", ".", ".."):
            raise ValueError(f"file {self.file!r}: give its URL relative to the base, and the texts in it")
        if not all(bool(text.member) == zipped for text in self.texts) or (len(self.texts) > 1 and not zipped):
            raise ValueError(f"file {self.file!r}: a zip archive has members, any other file is one text")

    @property
    def name(self) -> str:
        return PurePosixPath(self.file).name


@dataclass(frozen=True)
class Entry:
    """A corpus that can be downloaded, with its origin and licence."""

    name: str  # name on the command line
    about: str  # kind of text
    source_language: str
    target_language: str
    licence: str
    page: str  # URL of a description
    base: str  # URL that is put before all files
    downloads: tuple[Download, ...]
    pairs: str = ""  # number of training pairs, according to its page; empty: unknown
    size: int = 0  # bytes of all texts; 0: unknown

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"name {self.name!r}: use lower-case letters, digits and -")
        if not all(map(_LANGUAGE.fullmatch, (self.source_language, self.target_language))):
            raise ValueError(f"{self.name}: languages must be codes such as en and de")
        if not re.fullmatch(r"https?://[^\s/]+/(\S*/)?", self.base):
            raise ValueError(f"{self.name}: base is {self.base!r}; it must begin with https:// and end with /")
        if not {f"train.{self.source_language}", f"train.{self.target_language}"} <= set(self.texts):
            raise ValueError(f"{self.name}: there must be a train text of both languages")

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(text.name for download in self.downloads for text in download.texts)

    @property
    def verified(self) -> bool:
        """Whether checksums of all files are known before the first download."""
        return all(one.sha256 or all(text.sha256 for text in one.texts) for one in self.downloads)

    def url(self, download: Download) -> str:
        return self.base + download.file

    def pair(self, split: str) -> tuple[str, str] | None:
        """Return the names of source and target of a split, or None if one is missing."""
        names = (f"{split}.{self.source_language}", f"{split}.{self.target_language}")
        return names if set(names) <= set(self.texts) else None


@dataclass(frozen=True)
class Catalogue:
    """A list of corpora."""

    corpora: tuple[Entry, ...] = ()

    def find(self, name: str) -> Entry:
        known = {entry.name: entry for entry in self.corpora}
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise UsageError(f"{name} is not in the catalogue; {hint}choose from {', '.join(known)}")
        return known[name]


def read(path: Path = LISTED) -> Catalogue:
    return config.load(Catalogue, path)


def _check_sha256(text: str) -> None:
    if not _SHA256.fullmatch(text):
        raise ValueError(f"sha256 {text!r}: must be 64 digits of 0-9 and a-f")
