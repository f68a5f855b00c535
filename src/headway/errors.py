"""Errors that are reported to users in one line, and their exit codes."""

from __future__ import annotations


class HeadwayError(Exception):
    """An error whose message is one line: what was given, what is allowed, what to do."""

    exit_code = 2


class UsageError(HeadwayError):
    """An option, configuration, file or text is invalid."""


class DiskError(HeadwayError):
    """A file cannot be written: no space, no permission, or a device failed."""

    exit_code = 3


class DivergedError(HeadwayError):
    """Training diverged: numbers are not finite, also after going back to a checkpoint."""

    exit_code = 4


class RefusedError(HeadwayError):
    """A check failed: doctor advises against training, an export differs from its model, a download is wrong."""

    exit_code = 5


class LostError(HeadwayError):
    """Another process of the same training has died."""

    exit_code = 6


STOPPED_BY_SIGINT = 130
STOPPED_BY_SIGTERM = 143

EXIT_CODES: dict[int, str] = {
    0: "done",
    1: "a fault in headway itself: please report it",
    2: "wrong use: an option, a configuration, a file or a text that cannot be used",
    3: "disk: no space, no permission, or a device that failed; nothing saved before was lost",
    4: "training diverged; the last good checkpoint is kept",
    5: "a check refused: doctor advises against training, an export says something else, a download is wrong",
    6: "another process of the same training was lost; torchrun --max-restarts goes on from the last checkpoint",
    STOPPED_BY_SIGINT: "stopped from the keyboard, after saving",
    STOPPED_BY_SIGTERM: "stopped by SIGTERM, after saving",
}
