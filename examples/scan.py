"""SCAN: commands to actions, where training and test differ in what they combine. https://github.com/brendenlake/SCAN

    python examples/scan.py tasks_train_simple.txt tasks_test_simple.txt scan
    headway train recipes/scan.toml --out scanner
    headway evaluate scanner --source scan/test.commands --reference scan/test.actions --metrics accuracy

There are several splits: simple, length, addprim_jump, addprim_turn_left, template_around_right. None has validation
examples; some of the training ones are held out.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pairs import read_lines, write_pairs


def pair(line: str) -> tuple[str, str]:
    command, actions = line.removeprefix("IN:").split("OUT:")
    return command.strip(), actions.strip()


def main(train: str, test: str, folder: str) -> None:
    for part, path in (("train", train), ("test", test)):
        write_pairs(Path(folder), part, ("commands", "actions"), (pair(one) for one in read_lines(Path(path)) if one))


if __name__ == "__main__":
    main(*sys.argv[1:])
