"""A server in this process that is asked from ordinary, not asynchronous, tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from serving import Reply, ask, local

Asked = Callable[..., Reply]  # method, path, body, headers


@contextmanager
def asking(worker: Callable[[], Any], **settings: Any) -> Iterator[Asked]:
    with asyncio.Runner() as runner:
        opened = local(worker, **settings)
        here = runner.run(opened.__aenter__())
        try:
            yield lambda *request: runner.run(ask(here.app, *request))
        finally:
            runner.run(opened.__aexit__(None, None, None))
