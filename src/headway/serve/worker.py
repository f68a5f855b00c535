"""A model process: opens all models, then answers one message after another: python -P -m headway.serve.worker"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headway.errors import HeadwayError
from headway.openmp import share_cores
from headway.serve import channel
from headway.serve.channel import Message
from headway.serve.logs import place

Say = Callable[[Message], None]


def main() -> None:
    work(open_models)


def work(open_desk: Callable[[Message, Say], Any]) -> None:
    """Messages come on standard input and leave on what was standard output; prints go to standard error."""
    for stop in (signal.SIGINT, signal.SIGTERM):  # the server decides when we go: it may still have answers to give
        signal.signal(stop, signal.SIG_IGN)
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    share_cores()

    def say(message: Message) -> None:
        out.write(channel.frame(message))
        out.flush()

    mail = Inbox()
    threading.Thread(target=mail.collect, daemon=True).start()
    desk = open_handlers(open_desk, mail.next(), say)
    while True:
        message = mail.next()
        say({"id": message["id"], **answer_message(desk, message, mail)})


class Inbox:
    """Messages that wait, read by a thread of its own so that a call to stop is heard during work."""

    def __init__(self) -> None:
        self.waiting: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self.stopped = -1  # number of the last message that nobody wants answered any more

    def collect(self) -> None:
        while (message := channel.read(sys.stdin.buffer)) is not None:
            if "stop" in message:
                self.stopped = message["stop"]
            else:
                self.waiting.put(message)
        os._exit(0)  # the server is gone

    def next(self) -> Message:
        return self.waiting.get()


def open_models(message: Message, say: Say) -> Any:
    from headway.serve.model_handlers import ModelHandlers

    if hasattr(os, "nice"):
        os.nice(message["options"].get("niceness", 0))
    return ModelHandlers({name: Path(folder) for name, folder in message["models"].items()}, message["options"], say)


def open_handlers(open_desk: Callable[[Message, Say], Any], message: Message, say: Say) -> Any:
    """What answers messages; the server is told what it should know of it, or why it cannot be opened."""
    try:
        desk = open_desk(message, say)
    except HeadwayError as error:
        say({"refused": " ".join(str(error).split()), "code": error.exit_code})
        sys.exit(0)
    say({"ready": desk.facts()})
    return desk


def answer_message(desk: Any, message: Message, mail: Inbox) -> Message:
    """What was found; or what is wrong with the request; or, if it is our fault, where."""
    try:
        return {"found": desk.answer(message, lambda: mail.stopped == message["id"])}
    except HeadwayError as error:
        return {"wrong": " ".join(str(error).split()), "long": type(error).__name__ == "TooLongError"}
    except Exception as error:
        return {"fault": place(error)}


if __name__ == "__main__":
    main()
