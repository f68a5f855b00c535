"""How long a short translation takes while hard requests are answered: python -m bench.blocking URL"""

from __future__ import annotations

import json
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.error import HTTPError
from urllib.request import Request, urlopen

PATIENCE = 200  # seconds
PANELS = ["attention", "beam", "heads", "lens", "inside", "attribution", "occlusion"]
SENTENCE = "the dog runs to the red house and sees a small black cat in the garden "
EASY = ("/v1/translate", {"texts": ["A dog runs."], "beam": 1})
HARD = {
    "seven pages of A. A. A.": [
        ("/translate", {"q": ["A. " * 1660] * 8, "source": "en", "target": "de", "format": "html"})
    ] * 7,
    "a trace of 400 characters": [("/v1/trace", {"q": (SENTENCE * 6)[:400].strip(), "include": PANELS})],
}  # fmt: skip


def asked(url: str, path: str, body: object) -> tuple[int, float]:
    """Status and seconds of one request."""
    begun = time.monotonic()
    request = Request(url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})  # noqa: S310
    try:
        with urlopen(request, timeout=PATIENCE) as reply:  # noqa: S310
            reply.read()
            status = reply.status
    except HTTPError as error:
        status = error.code
    return status, time.monotonic() - begun


def main(url: str) -> None:
    asked(url, *EASY)
    for name, requests in HARD.items():
        over, easy = threading.Event(), list[tuple[int, float]]()

        def ask_on(over: threading.Event = over, easy: list[tuple[int, float]] = easy) -> None:
            while not over.is_set():
                easy.append(asked(url, *EASY))
                time.sleep(0.1)

        with ThreadPoolExecutor(len(requests) + 1) as pool:
            asking = pool.submit(ask_on)
            hard = list(pool.map(lambda one: asked(url, *one), requests))
            over.set()
            asking.result()
        longest, statuses = max(seconds for _, seconds in easy), sorted({status for status, _ in easy})
        told = ", ".join(f"{status} after {seconds:.1f} s" for status, seconds in hard)
        print(f"{name}: {told}; short translations meanwhile: {len(easy)}, {statuses}, longest {longest:.1f} s")


if __name__ == "__main__":
    main(sys.argv[1])
