"""Export: write in another format, let that format's own engine translate, and only then put it in its place."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from headway.engines.ctranslate2.convert import QUANTIZATIONS
from headway.errors import UsageError
from headway.exchange.agreement import Agreement, Engine, Trial, tolerance
from headway.exchange.argos import check_package, write_argos
from headway.exchange.ctranslate2 import open_ctranslate2, write_ctranslate2
from headway.exchange.destination import destination, mark
from headway.exchange.folders import check_hub_folder, write_hub_folder
from headway.exchange.int8 import open_int8, write_int8
from headway.exchange.onnx import check_onnx, write_onnx
from headway.exchange.samples import sample_sentences
from headway.exchange.trained import Trained, read_trained
from headway.storage.tensors import byte_count

CODE = "[a-z]{2,3}(?:-[A-Z][A-Za-z]{1,7})?"  # such as de, ast or pt-BR
COPIES = 3  # how many times the weights may lie on the disk while an export is made and tried


@dataclass(frozen=True)
class Target:
    """A format: how it is written, and how it is opened with its own engine."""

    write: Callable[[Trained, Path, str | None], None]
    open: Callable[[Path, Trial], Engine]
    quantizes: bool = False
    keeps: str = "*"  # which files stay when all is done
    holds: str | None = None  # numbers of the weights, where there is no choice


TARGETS = {
    "hf": Target(lambda trained, folder, _: write_hub_folder(trained, folder), check_hub_folder),
    "ctranslate2": Target(
        write_ctranslate2, lambda folder, trial: open_ctranslate2(folder, trial.trained, trial.steps), quantizes=True
    ),
    "onnx": Target(lambda trained, folder, _: write_onnx(trained, folder), check_onnx),
    "argos": Target(write_argos, check_package, quantizes=True, keeps="*.argosmodel"),
    "headway-int8": Target(lambda trained, folder, _: write_int8(trained, folder), open_int8, holds="int8"),
}


def export_model(
    folder: Path,
    to: str,
    out: Path,
    quantization: str | None = None,
    sample: Path | None = None,
    force: bool = False,
    languages: str | None = None,
) -> Agreement:
    """Write `folder`'s model to `out` in another format, if that format says what the model says."""
    target = choose(to, quantization)
    trained = read_trained(folder)
    trained = replace(trained, languages=choose_languages(languages, trained))
    texts = sample_sentences(folder, trained.source, sample)
    with destination(out, force, COPIES * byte_count(trained.tensors)) as new:
        target.write(trained, new, quantization)
        trial = Trial(trained, texts)
        agreement = trial.judge(target.open(new, trial), tolerance(quantization or target.holds))
        agreement.demand(to)
        tidy(new, target.keeps)
        mark(new, {"from": trained.name, "to": to, "quantization": quantization, "agreement": agreement.facts()})
    return agreement


def choose(to: str, quantization: str | None) -> Target:
    if to not in TARGETS:
        raise UsageError(f"--to {to}: choose one of {', '.join(TARGETS)}")
    target = TARGETS[to]
    if quantization is not None and not target.quantizes:
        able = " and ".join(name for name, one in TARGETS.items() if one.quantizes)
        raise UsageError(f"--quantization {quantization}: only {able} hold such weights; leave the option out")
    if quantization is not None and quantization not in QUANTIZATIONS:
        raise UsageError(f"--quantization {quantization}: choose one of {', '.join(QUANTIZATIONS)}")
    return target


def choose_languages(given: str | None, trained: Trained) -> tuple[str, str]:
    """Return the languages that are given, else those of the model."""
    if given is not None:
        pair = re.fullmatch(f"({CODE})[-_:]({CODE})", given)
        if pair is None:
            raise UsageError(f"--languages {given}: write source and target as en-de")
        return pair[1], pair[2]
    return trained.languages


def tidy(folder: Path, keeps: str) -> None:
    """Remove what was only needed to make or to try the export."""
    kept = set(folder.glob(keeps))
    for path in set(folder.iterdir()) - kept:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
