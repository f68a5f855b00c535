"""Download a corpus of the catalogue into a folder: fetch, verify checksums, decompress.

pooch verifies downloads too, but it neither resumes nor bounds them, limits no decompression, and does not record the
checksums of files for which none is known.
"""

from __future__ import annotations

import gzip
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from io import BufferedReader
from pathlib import Path

from headway.data.archives import PIECE, DamagedError, Readable, Unpacked, open_regular
from headway.data.catalogue import Download, Entry, Text
from headway.data.formats import count_lines, refuse_counts
from headway.data.http import Patience, Tell, download, forget
from headway.errors import DiskError, RefusedError, UsageError
from headway.storage.files import (
    check_space,
    digest_of,
    disk_trouble,
    make_folder,
    rename,
    replace_text,
    sync_folder,
    write_all,
)
from headway.storage.lock import Lock, sweep

SUMS = "SHA256SUMS"

Watch = Callable[[str], Tell]  # called with the name of a download, returns its progress callback


class Trust(StrEnum):
    """How the checksum of a text was verified."""

    LISTED = "checksum as in the catalogue"
    NOTED = f"checksum as in {SUMS}"
    FIRST = f"checksum unknown: trusted this time, written to {SUMS}, verified from now on"


@dataclass(frozen=True)
class Fetched:
    """A text that is in the folder."""

    name: str
    lines: int
    sha256: str
    trust: Trust
    new: bool  # whether it was downloaded now


def fetch(entry: Entry, folder: Path, watch: Watch, patience: Patience) -> Iterator[Fetched]:
    """Yield each text of a corpus as soon as it is in the folder; present ones are verified instead of downloaded."""
    with disk_trouble(folder, 0):
        make_folder(folder)
    with Lock(folder / "downloading"):
        sweep(folder)
        for one in entry.downloads:
            yield from Delivery(entry.url(one), one, folder, Sums(folder / SUMS)).run(watch, patience)
    for split in ("train", "dev", "test"):
        compare(folder, entry.pair(split))


def compare(folder: Path, pair: tuple[str, str] | None) -> None:
    """Raise UsageError if both sides of a split differ in their number of lines."""
    if pair is None:
        return
    source, target = (folder / name for name in pair)
    counts = count_lines(source), count_lines(target)
    if counts[0] != counts[1]:
        refuse_counts(source, target, *counts)


# ---------------------------------------------------------------- one download


@dataclass(frozen=True)
class Delivery:
    """One download into a folder."""

    url: str
    download: Download
    folder: Path
    sums: Sums

    @property
    def part(self) -> Path:
        return self.folder / f"{self.download.name}.part"

    def run(self, watch: Watch, patience: Patience) -> Iterator[Fetched]:
        here = [self.present(text) for text in self.download.texts if (self.folder / text.name).exists()]
        if len(here) == len(self.download.texts):
            yield from here
            return
        download(self.url, self.part, watch(self.download.name), patience, self.download.most)
        yield from self.deliver()

    def present(self, text: Text) -> Fetched:
        """Verify a text that is already in the folder; UsageError if it differs, as it is never overwritten."""
        path = self.folder / text.name
        found = checksum(path)
        if found not in (text.sha256, self.sums.of(text.name)):
            raise UsageError(
                f"{path} exists and is not the text of this corpus; move it away, or choose another folder with --to"
            )
        trust = Trust.LISTED if found == text.sha256 else Trust.NOTED
        return Fetched(text.name, count_lines(path), found, trust, new=False)

    def deliver(self) -> list[Fetched]:
        """Verify and decompress the download, record checksums, and only then move the texts into place."""
        found, noted = checksum(self.part), self.sums.of(self.url)
        known = all(text.sha256 for text in self.download.texts)  # then the checksum of the download does not matter
        self.check(self.part, self.download.sha256, "" if known else noted, found)
        trust = Trust.LISTED if known or self.download.sha256 else Trust.NOTED if noted else Trust.FIRST
        made = {text: self.folder / f"{text.name}.tmp-{os.getpid()}" for text in self.download.texts}
        try:
            sums = {text.name: self.unpack(text, path) for text, path in made.items()}
            self.sums.note({self.url: found} | sums)
            for text, path in made.items():
                with disk_trouble(self.folder / text.name, 0):
                    rename(path, self.folder / text.name)
                    sync_folder(self.folder)
        finally:
            for path in made.values():
                path.unlink(missing_ok=True)
        forget(self.part)
        return [Fetched(name, count_lines(self.folder / name), sums[name], trust, new=True) for name in sums]

    def unpack(self, text: Text, path: Path) -> str:
        """Decompress a text, verify it, and return its checksum."""
        unpacker = UNPACKERS.get(Path(self.download.name).suffix, plain)
        try:
            with ExitStack() as stack:
                copy(unpacker(self.part, text, stack), path)
        except UsageError as error:
            raise RefusedError(f"{error}; {self.reject(self.part)}") from None
        found = checksum(path)
        self.check(path, text.sha256, "", found, text.name)
        return found

    def check(self, path: Path, listed: str, noted: str, found: str, name: str = "") -> None:
        """Raise RefusedError if a checksum differs from the listed or else the recorded one; the file is set aside."""
        wanted = listed or noted
        if not wanted or wanted == found:
            return
        where = "the catalogue has" if listed else f"{SUMS} has"
        raise RefusedError(
            f"{self.url}: {name or 'the file'} has the checksum {found[:12]}..., {where} {wanted[:12]}...: "
            f"it is damaged, or was changed at its source; {self.reject(path, name)}"
        )

    def reject(self, path: Path, name: str = "") -> str:
        """Set a file aside, so that the next attempt starts from the beginning; return a message about it."""
        aside = self.folder / f"{name or self.download.name}.rejected"
        with disk_trouble(aside, 0):
            rename(path, aside)
            forget(self.part)
        return f"kept as {aside}; run the same command to download it again"


def checksum(path: Path) -> str:
    try:
        return digest_of(path).sha256
    except OSError as error:
        raise DiskError(f"{path}: cannot be read: {error.strerror or error}") from None


# ---------------------------------------------------------------- unpacking


def plain(path: Path, text: Text, stack: ExitStack) -> Readable:  # noqa: ARG001
    return stack.enter_context(open_regular(path))


def gzipped(path: Path, text: Text, stack: ExitStack) -> Readable:  # noqa: ARG001
    packed = stack.enter_context(open_regular(path))
    stream = stack.enter_context(gzip.GzipFile(fileobj=packed))
    return stack.enter_context(BufferedReader(Unpacked(path, packed, stream), PIECE))


def zipped(path: Path, text: Text, stack: ExitStack) -> Readable:
    """Open one named member; other members of the archive are ignored, so no path in it is used."""
    packed = stack.enter_context(open_regular(path))
    try:
        archive = stack.enter_context(zipfile.ZipFile(packed))
        check_space(path.parent, archive.getinfo(text.member).file_size)
        stream = stack.enter_context(archive.open(text.member))
    except KeyError:
        raise UsageError(f"{path}: the archive has no {text.member}") from None
    except (zipfile.BadZipFile, RuntimeError, ValueError, EOFError, struct.error, zlib.error) as error:
        raise UsageError(f"{path}: the archive is damaged ({error})") from None
    return stack.enter_context(BufferedReader(Unpacked(path, packed, Member(stream)), PIECE))


class Member:
    """A stream of a zip archive's member that raises DamagedError like the other formats."""

    def __init__(self, stream: Readable) -> None:
        self.stream = stream

    def read(self, size: int, /) -> bytes:
        try:
            return self.stream.read(size)
        except zipfile.BadZipFile as error:
            raise DamagedError(str(error)) from None


Unpacker = Callable[[Path, Text, ExitStack], Readable]
UNPACKERS: dict[str, Unpacker] = {".gz": gzipped, ".zip": zipped}


def copy(stream: Readable, path: Path) -> None:
    with disk_trouble(path, 0):
        file = path.open("wb", buffering=0)
    with file:
        while piece := stream.read(PIECE):
            with disk_trouble(path, len(piece)):
                write_all(file, piece)
        with disk_trouble(path, 0):
            os.fsync(file.fileno())


# ---------------------------------------------------------------- checksums


class Sums:
    """The file SHA256SUMS, which `sha256sum --check` reads too; checksums of downloads are in comments."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[str, str]:
        with disk_trouble(self.path, 0):
            text = self.path.read_text(encoding="utf-8") if self.path.exists() else ""
        return {name: sha256 for sha256, name in re.findall(r"^(?:# )?([0-9a-f]{64})  (\S+)$", text, re.MULTILINE)}

    def of(self, name: str) -> str:
        return self.read().get(name, "")

    def note(self, found: dict[str, str]) -> None:
        lines = [f"{'# ' * (':' in name)}{sha256}  {name}\n" for name, sha256 in (self.read() | found).items()]
        replace_text(self.path, "".join(lines))
