"""Keys that let people in: random, shown once, kept as hashes, compared in constant time."""

from __future__ import annotations

import hmac
import os
import re
import secrets
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from headway.errors import UsageError
from headway.serve.problems import Problem
from headway.storage.files import disk_trouble

LONGEST_KEY = 200  # characters of a key somebody shows
LARGEST_FILE = 1 << 20  # bytes
HASH = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Keys:
    """The hashes of the keys that are accepted; none: everybody is let in."""

    hashes: tuple[str, ...] = ()

    @classmethod
    def read(cls, path: Path) -> Keys:
        """One hash a line; # begins a remark."""
        try:
            text = path.read_bytes()[:LARGEST_FILE].decode("ascii", "replace")
        except OSError as error:
            raise UsageError(f"--key-file {path}: cannot be read: {error.strerror}") from None
        rows = [row for line in text.splitlines() if (row := line.split("#")[0].strip())]
        if not rows or not all(HASH.fullmatch(row) for row in rows):
            raise UsageError(f"--key-file {path}: it holds one hash a line, as `headway serve --make-key` writes them")
        return cls(tuple(rows))

    @property
    def required(self) -> bool:
        return bool(self.hashes)

    def check(self, shown: str | None) -> str:
        """The hash of the key, or nothing where none is needed. Problem 401 without a key, 403 for a wrong one."""
        if not self.required:
            return ""
        if not shown:
            raise Problem(401, "an API key is needed")
        digest = hash_key(shown[:LONGEST_KEY])
        if not sum(hmac.compare_digest(digest, known) for known in self.hashes):  # all, so that time tells nothing
            raise Problem(403, "the API key is not valid")
        return digest


def hash_key(key: str) -> str:
    """A key has 256 random bits, so a plain hash cannot be searched."""
    return sha256(key.encode("utf-8", "replace")).hexdigest()


def make_key(path: Path) -> str:
    """A new key; its hash is added to the file, which only its owner may read."""
    key = secrets.token_urlsafe(32)
    with (
        disk_trouble(path, 100),
        os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "w", encoding="ascii") as file,
    ):
        file.write(f"{hash_key(key)}\n")
    return key


def key_in_header(authorization: str | None) -> str | None:
    """The key of `Authorization: Bearer KEY` or `Authorization: DeepL-Auth-Key KEY`."""
    scheme, _, key = (authorization or "").partition(" ")
    return key.strip() or None if scheme.lower() in ("bearer", "deepl-auth-key") else None
