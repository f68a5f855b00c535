"""What was asked for, now and before: the run that a folder holds, and what may change about it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from headway import config
from headway.errors import UsageError
from headway.runs.decide import Candidate
from headway.storage.files import disk_trouble, make_folder, replace_text
from headway.storage.folder import CONFIG
from headway.storage.lock import sweep
from headway.storage.migration import migrated
from headway.storage.publication import FACTS
from headway.tasks.run import Run
from headway.training.plan import smaller_runs

BUDGETS = {"training.steps", "training.epochs", "training.minutes"}
FREE = BUDGETS | {  # settings that may change between two starts of one run
    "training.log_every", "training.tensorboard", "training.validate_every", "training.checkpoint_every",
    "training.patience", "training.keep_last", "training.keep_best", "training.validation_sentences",
    "training.validation_beam", "licence",
}  # fmt: skip
NAME, LOCK = "request.json", "trainer"


class Request:
    """Settings given on the command line or in a file, for a run in a folder."""

    def __init__(self, given: dict[str, Any], out: Path) -> None:
        self.out, self.path, self.stored = out, out / "state" / NAME, out / CONFIG
        known = read_json(self.path)
        known = None if known is None else migrated(known, str(self.path), unversioned=1)
        config.refuse_renamed(Run, given, "configuration")
        given = migrated(given, "configuration")
        self.before = known if self.stored.exists() else None
        # A run that was stopped while preparing has nothing to go on with but what was asked for.
        self.given = given if self.before is not None or "data" in given else config.merge(known or {}, given)

    def candidates(self, device: torch.device) -> list[Candidate]:
        """The runs that may be trained: the folder's own if it has one, else what was given with the rest proposed."""
        if self.before is None:
            asked = config.from_dict(Run, self.given, "configuration")
            proposed = asked.task.propose(self.given, asked.data, device)
            tables = smaller_runs(self.given, proposed, device)
            return [Candidate(config.from_dict(Run, table, "configuration"), enough) for table, enough in tables]
        table = migrated(config.read_toml(self.stored), str(self.stored), unversioned=1)
        changed = self.changes(flat(table))
        if BUDGETS & changed.keys():
            table["training"] = {k: v for k, v in table["training"].items() if f"training.{k}" not in BUDGETS}
        return [Candidate(config.from_dict(Run, config.merge(table, nested(changed)), str(self.stored)))]

    @property
    def keeps_budget(self) -> bool:
        """Whether no other budget is given than at the last start."""
        old = flat(self.before or {})
        return all(value == old.get(key) for key, value in flat(self.given).items() if key in BUDGETS)

    def changes(self, stored: dict[str, Any]) -> dict[str, Any]:
        """What is asked for differently than before. Going on must be going on with the same run."""
        old = flat(self.before or {})
        changed = {key: value for key, value in flat(self.given).items() if plain(value) != old.get(key)}
        for key, value in changed.items():
            if key in FREE or plain(value) == stored.get(key):
                continue
            was = f"was {old.get(key, stored.get(key))!r}" if key in old or key in stored else "was not given"
            raise UsageError(
                f"{self.out} holds a run in which {key} {was}, and now it is {value!r}; "
                "leave it out to go on with that run, or give another --out"
            )
        return changed

    def begin(self, run: Run, force: bool) -> list[str]:
        """Remove temporary files of crashed processes. At the first start look at the corpus, and mark the folder."""
        state = self.out / "state"
        for place in (self.out, state, state / "text", state / "dev", state / "corpus"):
            sweep(place)
        if self.before is not None:
            return []
        notes = run.task.look(run.data, force, run.seed)
        self.remember()
        return notes

    def remember(self) -> None:
        """What is asked for now counts from now on. A new budget replaces the old one."""
        old = flat(self.before or {})
        if BUDGETS & flat(self.given).keys():
            old = {key: value for key, value in old.items() if key not in BUDGETS}
        with disk_trouble(self.path, 4096):
            make_folder(self.path.parent)
        replace_text(self.path, json.dumps(nested(old | flat(self.given))))


def check_out(out: Path) -> None:
    """A folder of our own, an empty one, or a new one; nothing else is touched."""
    with disk_trouble(out, 4096):
        make_folder(out)
        found = {path.name for path in out.iterdir()}
        inside = {path.name.split(".tmp-")[0] for path in (out / "state").iterdir()} if "state" in found else set()
    ours = NAME in inside or (found == {"state"} and inside <= {LOCK})  # stopped before anything was written
    if found and not ours and FACTS in found:
        raise UsageError(f"--out {out}: a published model without training state; name a new folder")
    if found and not ours:
        raise UsageError(f"--out {out}: the folder holds something else ({sorted(found)[0]}); name a new one")
    with disk_trouble(out / "state", 4096):
        make_folder(out / "state")


# ---------------------------------------------------------------- tables


def read_json(path: Path) -> dict[str, Any] | None:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None


def plain(value: Any) -> Any:
    """As it would come back from JSON."""
    return json.loads(json.dumps(value, default=str))


def flat(table: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in table.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return found


def nested(values: dict[str, Any]) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for key, value in values.items():
        *parents, last = key.split(".")
        place = table
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value
    return table
