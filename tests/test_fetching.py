"""headway data: corpora from a server that cuts, changes, stalls and lies; here it runs on this machine."""

from __future__ import annotations

import gzip
import hashlib
import io
import random
import socket
import sys
import threading
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from http.client import HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.request import HTTPSHandler, Request, build_opener

import pytest

from disks import largest_file
from headway import cli, config
from headway.data import http
from headway.data.archives import ALWAYS_ALLOWED
from headway.data.catalogue import LISTED, Catalogue, Download, Entry, Text, read
from headway.data.fetch import SUMS, Fetched, Trust, fetch
from headway.data.http import Patience
from headway.errors import DiskError, HeadwayError, RefusedError, UsageError

ENGLISH = "".join(f"sentence number {i}\n" for i in range(20_000)).encode()
GERMAN = "".join(f"Satz Nummer {i}\n" for i in range(20_000)).encode()
PATIENT = Patience(timeout=60.0, pauses=(0.0, 0.0, 0.0))


class Shelf(ThreadingHTTPServer):
    """A server's files and its vices."""

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Clerk)
        self.files: dict[str, bytes] = {}
        self.ranges = True  # honours Range
        self.cuts: list[int] = []  # bytes after which the next answers break off
        self.failures: list[int] = []  # status codes of the next answers
        self.kind = "application/octet-stream"
        self.weak = False  # names versions weakly
        self.endless = False  # says no length, and never ends
        self.sent = 0  # pieces of an endless file
        self.asked: list[str] = []  # the Range of each request
        self.stall = threading.Event()  # set: answers come

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/"


class Clerk(BaseHTTPRequestHandler):
    server: Shelf

    def do_GET(self) -> None:  # noqa: N802
        shelf = self.server
        shelf.stall.wait(60)
        wanted = self.headers.get("Range", "")
        shelf.asked.append(wanted)
        body = shelf.files.get(self.path[1:])
        if body is None or shelf.failures:
            self.send_error(shelf.failures.pop(0) if shelf.failures else 404)
            return
        tag = f'{"W/" * shelf.weak}"{hashlib.sha256(body).hexdigest()}"'
        start = int(wanted[6:-1]) if wanted and shelf.ranges and self.headers.get("If-Range") == tag else 0
        if wanted and start >= len(body) > 0:
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(body)}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        self.send_header("ETag", tag)
        self.send_header("Last-Modified", "Sat, 01 Aug 2026 00:00:00 GMT")
        self.send_header("Content-Type", shelf.kind)
        if shelf.endless:
            self.run_on(body)
            return
        self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        with suppress(BrokenPipeError):  # a client may have seen enough
            self.wfile.write(body[start:][: shelf.cuts.pop(0) if shelf.cuts else None])

    def run_on(self, body: bytes) -> None:
        self.end_headers()
        with suppress(OSError):
            while self.server.endless:
                self.wfile.write(body)
                self.server.sent += 1

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch) -> Iterator[Shelf]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with Shelf() as server:
        server.stall.set()
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.stall.set()
        server.shutdown()
        thread.join()


def zipped(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, body in files.items():
            archive.writestr(name, body)
    return packed.getvalue()


def sha256(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def listed(shelf: Shelf, *downloads: Download) -> Entry:
    return Entry("toy", "toy text", "en", "de", "public domain", "https://example.org", shelf.address, downloads)


def plain(shelf: Shelf, **sums: str) -> Entry:
    shelf.files |= {"a.en": ENGLISH, "a.de": GERMAN}
    texts = (Text("train.en", sha256=sums.get("en", "")), Text("train.de", sha256=sums.get("de", "")))
    return listed(shelf, *(Download(f"a.{text.name[-2:]}", (text,)) for text in texts))


def archive(shelf: Shelf, body: bytes | None = None, checksum: str = "") -> Entry:
    shelf.files["a.zip"] = zipped({"A.en": ENGLISH, "A.de": GERMAN, "../evil": b"!"}) if body is None else body
    return listed(shelf, Download("a.zip", (Text("train.en", "A.en"), Text("train.de", "A.de")), checksum))


def get(entry: Entry, folder: Path, patience: Patience = PATIENT) -> list[Fetched]:
    return list(fetch(entry, folder, lambda _: lambda *_: None, patience))


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


# ---------------------------------------------------------------- what is fetched


def test_plain_texts_are_checked_and_noted(shelf: Shelf, tmp_path: Path) -> None:
    found = get(plain(shelf, en=sha256(ENGLISH), de=sha256(GERMAN)), tmp_path)
    assert [(one.name, one.lines, one.trust) for one in found] == [
        ("train.en", 20_000, Trust.LISTED),
        ("train.de", 20_000, Trust.LISTED),
    ]
    assert (tmp_path / "train.en").read_bytes() == ENGLISH and names(tmp_path) == {"train.en", "train.de", SUMS}
    assert f"{sha256(ENGLISH)}  train.en\n" in (tmp_path / SUMS).read_text()


def test_gzip_is_unpacked(shelf: Shelf, tmp_path: Path) -> None:
    shelf.files |= {"a.en.gz": gzip.compress(ENGLISH), "a.de": GERMAN}
    entry = listed(
        shelf, Download("a.en.gz", (Text("train.en", sha256=sha256(ENGLISH)),)), Download("a.de", (Text("train.de"),))
    )
    assert [one.trust for one in get(entry, tmp_path)] == [Trust.LISTED, Trust.FIRST]
    assert (tmp_path / "train.en").read_bytes() == ENGLISH


def test_a_cut_off_gzip_file_is_refused(shelf: Shelf, tmp_path: Path) -> None:
    shelf.files |= {"a.en.gz": gzip.compress(ENGLISH)[:-100], "a.de": GERMAN}
    entry = listed(shelf, Download("a.en.gz", (Text("train.en"),)), Download("a.de", (Text("train.de"),)))
    with pytest.raises(RefusedError, match="the archive is cut off"):
        get(entry, tmp_path)
    assert names(tmp_path) == {"a.en.gz.rejected"}


def test_only_named_members_of_an_archive_are_written(shelf: Shelf, tmp_path: Path) -> None:
    get(archive(shelf), tmp_path / "inner")
    assert names(tmp_path) == {"inner"} and names(tmp_path / "inner") == {"train.en", "train.de", SUMS}
    assert (tmp_path / "inner" / "train.de").read_bytes() == GERMAN


def test_what_is_there_is_not_fetched_again(shelf: Shelf, tmp_path: Path) -> None:
    get(archive(shelf), tmp_path)
    again = get(archive(shelf), tmp_path)
    assert len(shelf.asked) == 1
    assert not any(one.new for one in again) and {one.trust for one in again} == {Trust.NOTED}


def test_a_foreign_file_is_not_overwritten(shelf: Shelf, tmp_path: Path) -> None:
    (tmp_path / "train.de").write_text("mine\n")
    with pytest.raises(UsageError, match="exists and is not the text"):
        get(archive(shelf), tmp_path)
    assert (tmp_path / "train.de").read_text() == "mine\n"


# ---------------------------------------------------------------- cut connections


def test_a_cut_connection_is_taken_up_again(shelf: Shelf, tmp_path: Path) -> None:
    shelf.cuts = [1000, 70_000]
    get(plain(shelf, en=sha256(ENGLISH)), tmp_path)
    assert shelf.asked[:3] == ["", "bytes=1000-", "bytes=71000-"]
    assert (tmp_path / "train.en").read_bytes() == ENGLISH


def test_the_next_command_goes_on_where_the_last_one_stopped(shelf: Shelf, tmp_path: Path) -> None:
    entry = plain(shelf, en=sha256(ENGLISH))
    shelf.cuts = [5000, 0, 0, 0]
    with pytest.raises(UsageError, match="5,000 bytes are kept, the same command goes on"):
        get(entry, tmp_path)
    assert (tmp_path / "a.en.part").read_bytes() == ENGLISH[:5000]
    get(entry, tmp_path)
    assert "bytes=5000-" in shelf.asked and (tmp_path / "train.en").read_bytes() == ENGLISH


def test_a_whole_part_is_not_fetched_again(shelf: Shelf, tmp_path: Path) -> None:
    """As after a kill between the last byte and the check."""
    (tmp_path / "a.en.part").write_bytes(ENGLISH)
    (tmp_path / "a.en.part.version").write_text(f'"{sha256(ENGLISH)}"')
    get(plain(shelf, en=sha256(ENGLISH)), tmp_path)
    assert shelf.asked[0] == f"bytes={len(ENGLISH)}-" and (tmp_path / "train.en").read_bytes() == ENGLISH


def test_a_file_that_changed_meanwhile_is_fetched_anew(shelf: Shelf, tmp_path: Path) -> None:
    """A part of another version must not be continued, whether it is shorter or longer than the new file."""
    for length in (1000, len(ENGLISH) + 1):
        folder = tmp_path / str(length)
        folder.mkdir()
        (folder / "a.en.part").write_bytes(b"x" * length)
        (folder / "a.en.part.version").write_text('"old"')
        get(plain(shelf), folder)
        assert (folder / "train.en").read_bytes() == ENGLISH


def test_a_server_without_ranges_starts_over(shelf: Shelf, tmp_path: Path) -> None:
    shelf.ranges = False
    shelf.cuts = [1000]
    get(plain(shelf, en=sha256(ENGLISH)), tmp_path)
    assert (tmp_path / "train.en").read_bytes() == ENGLISH


def test_a_version_that_is_named_weakly_is_not_continued(shelf: Shelf, tmp_path: Path) -> None:
    """Neither by that name nor by the date beside it: two files with one weak name need not have the same bytes."""
    shelf.weak = True
    shelf.cuts = [1000]
    get(plain(shelf, en=sha256(ENGLISH)), tmp_path)
    assert shelf.asked[:2] == ["", ""]
    assert (tmp_path / "train.en").read_bytes() == ENGLISH


@pytest.mark.parametrize("endless", [True, False])
def test_no_more_is_fetched_than_the_list_allows(shelf: Shelf, tmp_path: Path, endless: bool) -> None:
    shelf.endless = endless
    entry = plain(shelf)
    few = tuple(replace(one, most=len(ENGLISH) - 1) for one in entry.downloads)
    with pytest.raises(RefusedError, match=f"sends more than {len(ENGLISH) - 1:,} bytes"):
        get(replace(entry, downloads=few), tmp_path)
    assert not (tmp_path / "train.en").exists() and not (tmp_path / "a.en.part").exists()
    assert len(shelf.asked) == 1
    shelf.endless = False
    enough = tuple(replace(one, most=max(len(ENGLISH), len(GERMAN))) for one in entry.downloads)
    get(replace(entry, downloads=enough), tmp_path)
    assert (tmp_path / "train.en").read_bytes() == ENGLISH


class Diverting(HTTPSHandler):
    """A safe server that sends its visitors to an unsafe one."""

    def __init__(self, to: str) -> None:
        super().__init__()
        self.to = to

    def https_open(self, req: Request) -> HTTPResponse:  # noqa: ARG002
        ours, theirs = socket.socketpair()
        with ours, theirs:
            theirs.sendall(f"HTTP/1.1 302 Found\r\nLocation: {self.to}\r\nContent-Length: 0\r\n\r\n".encode())
            answer = HTTPResponse(ours)
            answer.begin()
        answer.msg = answer.reason  # pyright: ignore[reportAttributeAccessIssue]
        return answer


def test_a_safe_address_never_leads_to_an_unsafe_one(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = replace(plain(shelf), base="https://example.invalid/")
    diverting = Diverting(f"{shelf.address}a.en")
    monkeypatch.setattr(http, "build_opener", lambda *kinds: build_opener(*kinds, diverting))
    with pytest.raises(UsageError, match="which is not safe; nothing was fetched"):
        get(entry, tmp_path)
    assert shelf.asked == []


def test_a_busy_server_is_asked_again(shelf: Shelf, tmp_path: Path) -> None:
    shelf.failures = [503, 503]
    get(plain(shelf), tmp_path)
    assert len(shelf.asked) == 4


# ---------------------------------------------------------------- checksums


def test_a_wrong_checksum_is_refused(shelf: Shelf, tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="a.zip.rejected") as caught:
        get(archive(shelf, checksum="0" * 64), tmp_path)
    assert caught.value.exit_code == 5 and names(tmp_path) == {"a.zip.rejected"}


def test_a_wrong_text_in_a_download_is_refused(shelf: Shelf, tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="train.en has the checksum"):
        get(plain(shelf, en="0" * 64), tmp_path)
    assert names(tmp_path) == {"train.en.rejected"}


def test_the_first_download_is_believed_and_the_next_must_agree(shelf: Shelf, tmp_path: Path) -> None:
    assert {one.trust for one in get(archive(shelf), tmp_path)} == {Trust.FIRST}
    for name in ("train.en", "train.de"):
        (tmp_path / name).unlink()
    assert {one.trust for one in get(archive(shelf), tmp_path)} == {Trust.NOTED}
    (tmp_path / "train.en").unlink()
    with pytest.raises(RefusedError, match=f"{SUMS} says"):
        get(archive(shelf, zipped({"A.en": ENGLISH, "A.de": ENGLISH})), tmp_path)
    assert (tmp_path / "train.de").read_bytes() == GERMAN and not (tmp_path / "train.en").exists()


# ---------------------------------------------------------------- what cannot be used


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"no archive at all", "damaged"),
        (zipped({"A.en": ENGLISH, "A.de": GERMAN})[:-4000], "damaged"),
        (zipped({"A.en": ENGLISH, "B.de": GERMAN}), "no A.de in the archive"),
        (zipped({"A.en": ENGLISH, "A.de": bytes(ALWAYS_ALLOWED + 1)}), "more than text can"),
    ],
    ids=["no-zip", "cut", "member", "bomb"],
)
def test_a_bad_archive_is_kept_apart(shelf: Shelf, tmp_path: Path, body: bytes, said: str) -> None:
    with pytest.raises(RefusedError, match=said):
        get(archive(shelf, body), tmp_path)
    assert names(tmp_path) == {"a.zip.rejected"}
    assert all(one.trust is Trust.FIRST for one in get(archive(shelf), tmp_path)), "the next try begins anew"


def test_damaged_bytes_inside_an_archive_are_found(shelf: Shelf, tmp_path: Path) -> None:
    good = zipped({"A.en": ENGLISH, "A.de": GERMAN})
    with pytest.raises(RefusedError, match="damaged near here"):
        get(archive(shelf, good[:3000] + b"????" + good[3004:]), tmp_path)


def test_sides_of_different_length_are_refused(shelf: Shelf, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="20,000 lines but"):
        get(archive(shelf, zipped({"A.en": ENGLISH, "A.de": GERMAN + b"one more\n"})), tmp_path)


def test_a_web_page_is_no_corpus(shelf: Shelf, tmp_path: Path) -> None:
    shelf.kind = "text/html"
    with pytest.raises(UsageError, match="a web page"):
        get(plain(shelf), tmp_path)


def test_a_server_that_never_answers(shelf: Shelf, tmp_path: Path) -> None:
    shelf.stall.clear()
    with pytest.raises(UsageError, match="no answer within 0.2 seconds"):
        get(plain(shelf), tmp_path, Patience(timeout=0.2, pauses=()))


def test_a_disk_that_is_nearly_full(shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr("headway.storage.files.shutil.disk_usage", lambda _: usage)
    with pytest.raises(DiskError, match="1,000 are free"):
        get(plain(shelf), tmp_path)


def test_a_disk_that_is_full_is_named_and_what_was_unpacked_is_removed(shelf: Shelf, tmp_path: Path) -> None:
    with largest_file(100_000), pytest.raises(DiskError, match=r"a\.zip\.part: .*bytes are needed\); make room"):
        get(
            archive(shelf, zipped({"A.en": ENGLISH, "A.de": GERMAN, "x": random.Random(0).randbytes(200_000)})),
            tmp_path,
        )
    assert names(tmp_path) == {"a.zip.part", "a.zip.part.version"}  # the next try goes on with these
    with largest_file(len(GERMAN) - 1), pytest.raises(DiskError, match=r"train\..*bytes are needed\); make room"):
        get(archive(shelf), tmp_path / "b")
    assert names(tmp_path / "b") == {"a.zip.part", "a.zip.part.version"}


# ---------------------------------------------------------------- the command


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]):  # noqa: ANN201
    """Type a command; its exit code, and what it said on both streams."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["headway", *words])
        code = cli.run()
        return code, *capfd.readouterr()

    return run


def written(entry: Entry, path: Path) -> str:
    path.write_text(config.dump(Catalogue((entry,))), encoding="utf-8")
    return str(path)


def test_the_command_ends_with_the_next_one(shelf: Shelf, tmp_path: Path, typed) -> None:  # noqa: ANN001
    mine = written(archive(shelf), tmp_path / "mine.toml")
    code, out, _ = typed("data", "get", "toy", "--catalogue", mine)
    assert code == 0 and "public domain" in out and "believed this time" in out and sha256(ENGLISH) in out
    assert out.endswith("headway train --source toy/train.en --target toy/train.de --out en-de\n")
    code, out, _ = typed("data", "get", "toy", "--catalogue", mine, "--to", "toy")
    assert code == 0 and "(was here)" in out


@pytest.mark.parametrize(
    ("path", "code", "said"), [("gone/", 2, "answers 404"), ("", 5, "the list says 000000000000...")]
)
def test_mistakes_are_one_line(shelf: Shelf, tmp_path: Path, typed, path: str, code: int, said: str) -> None:  # noqa: ANN001
    entry = archive(shelf, checksum="0" * 64)
    moved = config.from_dict(Entry, config.to_dict(entry) | {"base": entry.base + path})
    found, _, error = typed("data", "get", "toy", "--catalogue", written(moved, tmp_path / "mine.toml"))
    assert found == code and said in error and error.count("\n") == 1


def test_no_network_is_one_line(shelf: Shelf, tmp_path: Path, typed) -> None:  # noqa: ANN001
    """Nobody listens at this address: the port was given back."""
    entry = archive(shelf)
    nobody = Shelf()
    nobody.server_close()
    moved = config.from_dict(Entry, config.to_dict(entry) | {"base": nobody.address})
    code, _, error = typed("data", "get", "toy", "--catalogue", written(moved, tmp_path / "mine.toml"))
    assert code == 2 and "is there a network?" in error and error.count("\n") == 1


def test_an_unknown_name_is_one_line(typed) -> None:  # noqa: ANN001
    code, _, error = typed("data", "get", "multi30-en-de")
    assert code == 2 and "did you mean multi30k-en-de" in error and error.count("\n") == 1


# ---------------------------------------------------------------- the list


def test_the_list_is_sound(typed) -> None:  # noqa: ANN001
    entries = read(LISTED).corpora
    assert len({entry.name for entry in entries}) == len(entries) >= 10
    for entry in entries:
        assert entry.base.startswith("https://") and entry.page.startswith("https://") and entry.licence
        assert len(set(entry.texts)) == len(entry.texts)
    code, out, _ = typed("data", "list")
    assert code == 0 and all(entry.name in out and entry.page in out for entry in entries)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"base": "file:///etc/"}, "must begin with https://"),
        ({"name": "../evil"}, "small letters"),
        ({"downloads": [{"file": "a.zip", "texts": [{"name": "../x.en", "member": "m"}]}]}, "call it train"),
        ({"downloads": [{"file": "../../a", "texts": [{"name": "train.en"}]}]}, "no train text of both"),
        ({"downloads": [{"file": "..", "texts": [{"name": "train.en"}]}]}, "its address below the base"),
        ({"downloads": [{"file": "a.zip", "texts": [{"name": "train.en"}]}]}, "a zip archive has members"),
        ({"downloads": [{"file": "a", "sha256": "1", "texts": [{"name": "train.en"}]}]}, "64 digits"),
    ],
)
def test_a_list_with_traps_is_refused(shelf: Shelf, change: dict[str, object], said: str) -> None:
    with pytest.raises(HeadwayError, match=said):
        config.from_dict(Entry, config.to_dict(archive(shelf)) | change)
