"""How a server is set up, and how much one request may ask for."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path

from headway.errors import UsageError


@dataclass(frozen=True)
class Limits:
    """Checked before any work is done."""

    body: int = 1_000_000  # bytes of a request
    header: int = 16_384  # bytes of the address and the headers
    file: int = 10_000_000  # bytes of a request that brings a file
    buffered: int = 64_000_000  # bytes of all requests that are being received
    text: int = 5_000  # characters of one text
    texts: int = 50  # texts in one request
    alternatives: int = 5  # other translations of a text, for LibreTranslate's clients
    n_best: int = 10  # translations of a text
    beam: int = 10  # hypotheses that grow together
    terms: int = 50  # rows of a glossary
    pieces: int = 128  # source or target pieces of a trace
    deadline: float = 8.0  # seconds until an answer must have left; Mastodon waits 10
    trace_deadline: float = 20.0  # the same for a trace
    wait: float = 3.0  # seconds a request may expect to wait; with more waiting it is refused at once
    queue: int = 250_000  # work that may wait: source pieces (estimated) times the beam
    client_requests: int = 128  # requests of one address, or with one key, that are answered at once
    requests: int = 1024  # requests of all clients that are answered at once
    client_connections: int = 1000  # of one address
    connections: int = 2000  # of all clients
    receive: float = 10.0  # seconds to receive headers, and again for a body


ANY_HOST = "*"


@dataclass(frozen=True)
class Settings:
    """What `headway serve` was told."""

    folders: tuple[Path, ...]
    host: str = "127.0.0.1"
    port: int = 5000
    insecure: bool = False  # listen to other machines without a key
    key_file: Path | None = None  # hashes of the keys that are accepted
    allowed_hosts: tuple[str, ...] = ()  # other names of this server, for example of a proxy in front of it; * for all
    cors_origins: tuple[str, ...] = ()  # other sites whose pages may ask
    url_prefix: str = ""  # for example /translate, when a proxy serves several things
    log_text: bool = False  # write what is translated into the log
    traces: bool = True  # answer requests to look inside models
    workers: int = 1  # model processes
    spares: int = 1  # loaded processes that wait to replace one that fails
    beam: int = 5  # when a request does not say
    device: str = "auto"
    engine: str = "auto"
    precision: str = "auto"
    limits: Limits = Limits()

    def __post_init__(self) -> None:
        if not is_loopback(self.host) and self.key_file is None and not self.insecure:
            raise UsageError(
                f"--host {self.host} can be reached by others: make a key with --make-key FILE and give it as "
                "--key-file FILE, or add --insecure to let everybody in"
            )
        if self.url_prefix and (not self.url_prefix.startswith("/") or self.url_prefix.endswith("/")):
            raise UsageError(f"--url-prefix {self.url_prefix}: it begins with / and does not end with it")
        if not 0 <= self.port <= 65535 or not 1 <= self.workers <= 64 or not 0 <= self.spares <= 8:
            raise UsageError("--port is from 0 to 65535, --workers from 1 to 64, --spares from 0 to 8")
        wrong = next((host for host in self.allowed_hosts if not host.strip() or set(host) & set("/@ ")), None)
        if wrong is not None:
            raise UsageError(f"--allowed-host {wrong!r}: it is a name or an address, such as mt.example.org, or *")
        if not 1 <= self.limits.client_requests <= self.limits.requests:
            raise UsageError(f"--client-requests {self.limits.client_requests}: from 1 to {self.limits.requests}")
        if not 1 <= self.beam <= self.limits.beam:
            raise UsageError(f"--beam {self.beam}: it is from 1 to {self.limits.beam}")


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
