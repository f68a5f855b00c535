"""How a server is set up, and how much one request may ask for."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from headway.errors import UsageError
from headway.options import check_ranges, option
from headway.tasks.decoding_options import DecodingOptions


@dataclass(frozen=True)
class Limits:
    """The most that one request, one client or all clients may ask for."""

    panel: ClassVar[str] = "Limits"

    body: int = 1_000_000  # bytes of a request
    header: int = 16_384  # bytes of the address and the headers
    file: int = 10_000_000  # bytes of a request that brings a file
    buffered: int = 64_000_000  # bytes of all requests that are being received
    text: int = option(5_000, "Largest length of one text, in characters.", least=1, flags=("--characters",))
    texts: int = 50  # texts in one request
    alternatives: int = 5  # other translations of a text, for LibreTranslate's clients
    n_best: int = 10  # translations of a text
    beam: int = 10  # hypotheses that grow together
    terms: int = 50  # rows of a glossary
    pieces: int = 128  # source or target pieces of a trace
    deadline: float = option(8.0, "Seconds until a request is answered or refused.", above=0)  # Mastodon waits 10
    trace_deadline: float = option(20.0, "Seconds until a trace is answered or given up.", above=0)
    wait: float = 3.0  # seconds a request may expect to wait; with more waiting it is refused at once
    queue: int = option(250_000, "Largest amount of waiting work: source tokens (estimated) times beam size.", least=1)
    client_requests: int = option(128, "Requests of one address or key that are answered at once.")
    requests: int = 1024  # requests of all clients that are answered at once
    client_connections: int = 1000  # of one address
    connections: int = 2000  # of all clients
    receive: float = 10.0  # seconds to receive headers, and again for a body


ANY_HOST = "*"


@dataclass(frozen=True)
class Settings:
    """How a server is set up; most of it are options of `headway serve`."""

    panel: ClassVar[str] = "Server"

    folders: tuple[Path, ...] = ()
    host: str = option("127.0.0.1", "Address to listen on; addresses other than loopback need a key.")
    port: int = option(5000, "Port to listen on; 0: any free port.", least=0, most=65535)
    key_file: Path | None = option(None, "File of the accepted keys, as hashes; --make-key makes it.")
    insecure: bool = option(False, "Let other machines in without a key.")
    allowed_hosts: tuple[str, ...] = option(
        (), "Another name of this server, such as that of a proxy; * for any. Repeatable.", flags=("--allowed-host",)
    )
    cors_origins: tuple[str, ...] = option(
        (), "A site whose pages may send requests; * for all. Repeatable.", flags=("--cors-origin",)
    )
    url_prefix: str = option("", "Path prefix of all addresses, such as /mt, where a proxy serves several things.")
    log_text: bool = option(False, "Write the translated text into the log.")
    traces: bool = option(True, "Answer requests to look inside the models.", flags=("--trace/--no-trace",))
    workers: int = option(1, "Number of model processes.", least=1, most=64)
    spares: int = option(1, "Number of loaded processes that wait to replace one that fails.", least=0, most=8)
    beam: int = option(DecodingOptions().beam, "Beam size where a request does not say.", least=1, most=Limits().beam)
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
        check_ranges(self)
        check_ranges(self.limits)
        wrong = next((host for host in self.allowed_hosts if not host.strip() or set(host) & set("/@ ")), None)
        if wrong is not None:
            raise UsageError(f"--allowed-host {wrong!r}: it is a name or an address, such as mt.example.org, or *")
        if not 1 <= self.limits.client_requests <= self.limits.requests:
            raise UsageError(f"--client-requests {self.limits.client_requests}: from 1 to {self.limits.requests}")


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
