"""How much every client asks for at once: requests and connections are counted by address and by key, and capped."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from headway.serve.problems import Problem
from headway.serve.settings import Limits

PROBES = ("/health", "/ready")  # are answered however much their sender asks for
SAME_NETWORK = 64  # bits of an IPv6 address that one client cannot choose
EVERYBODY = ""


class ClientCounts:
    """Counts what is being answered. Clients are told apart by address, and by key where they show one."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.requests: Counter[str] = Counter()
        self.connections: Counter[str] = Counter()

    # ------------------------------------------------------------ requests

    @contextmanager
    def asking(self, client: str) -> Iterator[None]:
        """While a request of this client is answered. Problem 429 if it has too many, or if all have."""
        if self.is_full(client):
            raise too_many()
        with count_while(self.requests, client), count_while(self.requests, EVERYBODY):
            yield

    @contextmanager
    def showing(self, key: str) -> Iterator[None]:
        """While a request with this key is answered. Problem 429 if it has too many."""
        if self.requests[key] >= self.limits.client_requests:
            raise too_many()
        with count_while(self.requests, key):
            yield

    def is_full(self, client: str) -> bool:
        mine, all_ = self.requests[client], self.requests[EVERYBODY]
        return mine >= self.limits.client_requests or all_ >= self.limits.requests

    # ------------------------------------------------------------ connections

    def connect(self, client: str) -> bool:
        """Count a connection; whether it may stay."""
        self.connections.update((client, EVERYBODY))
        mine, all_ = self.connections[client], self.connections[EVERYBODY]
        return mine <= self.limits.client_connections and all_ <= self.limits.connections

    def disconnect(self, client: str) -> None:
        decrement(self.connections, client)
        decrement(self.connections, EVERYBODY)


@contextmanager
def count_while(table: Counter[str], name: str) -> Iterator[None]:
    table[name] += 1
    try:
        yield
    finally:
        decrement(table, name)


def decrement(table: Counter[str], name: str) -> None:
    """Names that are not needed any more must not fill the memory."""
    table[name] -= 1
    if not table[name]:
        del table[name]


def too_many() -> Problem:
    return Problem(429, "too many requests at once; come back later", 1)


def client_of(address: str) -> str:
    """Who has this address: for IPv6 the network, as everybody there has more addresses than can be counted."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return f"address {address}"
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped:
            return f"address {found.ipv4_mapped}"
        found = ipaddress.ip_network((found, SAME_NETWORK), strict=False)
    return f"address {found}"
