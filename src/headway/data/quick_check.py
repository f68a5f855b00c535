"""Run doctor's fast checks at the start of a training."""

from __future__ import annotations

from pathlib import Path

from headway.data.corpus import Corpus, Data
from headway.data.doctor import examine
from headway.data.formats import Names


def look(data: Data, force: bool) -> list[str]:
    """Return doctor's findings on every training corpus, one line each; RefusedError for a fatal one unless `force`."""
    return [line for corpus in data.training() for line in opinion(corpus, data, force)]


def opinion(corpus: Corpus, data: Data, force: bool) -> list[str]:
    dev = (Path(data.dev_source), Path(data.dev_target)) if data.dev_source and data.dev_target else None
    names = Names(
        str(corpus.source_field or data.source_field),
        str(corpus.target_field or data.target_field),
        corpus.source_language or data.source_language,
        corpus.target_language or data.target_language,
    )
    target = Path(corpus.target) if corpus.target else None
    found = examine(Path(corpus.source), target, dev=dev, quick=True, names=names, invalid=data.invalid)
    if not force:
        found.refuse_if_fatal()
    return [
        f"doctor: {finding.severity}: {finding.title}"
        + (f" ({', '.join(example.where for example in finding.examples[:3])})" if finding.examples else "")
        + f"; {finding.advice}"
        for finding in found.findings
    ]
