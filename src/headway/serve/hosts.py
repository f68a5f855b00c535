"""The names under which a server may be asked: a page elsewhere must not reach it under a name of its own."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable

from headway.serve.problems import Problem
from headway.serve.settings import ANY_HOST, is_loopback

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^:\[\]/@\s]+)(?::\d{0,5})?", re.IGNORECASE)


class Hosts:
    """Loopback names, the address that is listened to, and names that were given.

    A server that listens to all addresses answers to each of them and to the machine's own name: a foreign page
    cannot have an address as its name (DNS rebinding needs a name).
    """

    def __init__(self, host: str, more: Iterable[str] = ()) -> None:
        self.names = {name_of(one) for one in (host, *more)}
        self.every_name = ANY_HOST in self.names
        self.every_address = is_wildcard(host)
        if self.every_address:
            self.names |= {name_of(socket.gethostname()), name_of(socket.getfqdn())}

    def check(self, header: str | None) -> None:
        """Problem 400 for a name that is not ours. A client of HTTP/1.0 may leave it out: browsers never do."""
        if not header or self.every_name:
            return
        if not self.knows(name_of(header)):
            raise Problem(400, "Invalid request: this server has another name; --allowed-host NAME lets it be asked so")

    def knows(self, name: str) -> bool:
        return name in self.names or is_loopback(name) or (self.every_address and is_address(name))


def name_of(header: str) -> str:
    """The name or address in a Host header, without its port; nothing if there is none."""
    found = _HOST.fullmatch(header.strip()) or _HOST.fullmatch(f"[{header.strip()}]")
    return found[1].strip("[]").rstrip(".").lower() if found else ""


def is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_wildcard(host: str) -> bool:
    return is_address(host) and ipaddress.ip_address(host).is_unspecified
