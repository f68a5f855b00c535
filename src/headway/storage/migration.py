"""Configurations of older versions: pure steps from one version's table to the next's.

A configuration states its version (`version = 2`). One without a version in a model folder is of version 1, as programs
before version 2 wrote none. To rename a key, raise VERSION and add a step here; nothing else knows old names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headway.errors import UsageError

VERSION = 2
Table = dict[str, Any]

# What version 2 calls the keys of version 1.
RENAMED_IN_2 = {
    "task.agreement": "training.r_drop",
    "task.forget": "task.memory_dropout",
    "task.many": "task.multi_label",
    "task.turns": "task.interleaved_batches",
    "model.pairs": "model.bigram_buckets",
    "model.reads": "model.attended_layers",
    "model.tie": "model.tie_embeddings",
    "training.clip": "training.clip_norm",
    "training.graphs": "training.cuda_graphs",
    "training.optimiser.decay": "training.optimiser.weight_decay",
    "training.schedule.most": "training.schedule.max_warmup_share",
    "training.shard": "training.fsdp",
    "training.smoothing": "training.objective.label_smoothing",
    "training.watch": "training.best_metric",
}
RENAMED = RENAMED_IN_2  # every old name and what it is called now


def to_version_2(table: Table) -> Table:
    return rename(table, RENAMED_IN_2)


STEPS: dict[int, Callable[[Table], Table]] = {1: to_version_2}  # from this version to the next


def migrated(table: Mapping[str, Any], where: str, unversioned: int = VERSION) -> Table:
    """The table in the words of this version. `unversioned`: the version of a table that states none."""
    version = table.get("version", unversioned)
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise UsageError(f"{where}: version is {version!r}; it must be a whole number from 1 to {VERSION}")
    if version > VERSION:
        raise UsageError(
            f"{where} has version {version}; this headway reads configurations up to version {VERSION}: "
            "install the newer headway"
        )
    result = {key: value for key, value in table.items() if key != "version"}
    for step in range(version, VERSION):
        result = STEPS[step](result)
    return {"version": VERSION, **result}


def rename(table: Mapping[str, Any], names: Mapping[str, str]) -> Table:
    """The table with values moved from old to new dotted names. A value that has the new name already stays."""
    result = copied(table)
    for old, new in names.items():
        parent, _, key = old.rpartition(".")
        place = table_at(result, parent)
        if place is not None and key in place:
            value = place.pop(key)
            parent, _, key = new.rpartition(".")
            make_table(result, parent).setdefault(key, value)
    return result


def copied(table: Mapping[str, Any]) -> Table:
    return {key: copied(value) if isinstance(value, Mapping) else value for key, value in table.items()}


def table_at(table: Table, path: str) -> Table | None:
    """The inner table of this dotted name, or None."""
    for name in path.split("."):
        inner = table.get(name)
        if not isinstance(inner, dict):
            return None
        table = inner
    return table


def make_table(table: Table, path: str) -> Table:
    """The inner table of this dotted name, made where there is none."""
    for name in path.split("."):
        if not isinstance(table.get(name), dict):
            table[name] = {}
        table = table[name]
    return table
