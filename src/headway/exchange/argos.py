"""Packages for Argos Translate and LibreTranslate: a CTranslate2 model, its pieces and its languages in one archive."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path

import sentencepiece

from headway.engines.ctranslate2.convert import convert
from headway.errors import RefusedError, UsageError
from headway.exchange.agreement import Engine, Trial
from headway.exchange.ctranslate2 import open_ctranslate2
from headway.exchange.trained import Trained
from headway.model.design import EncoderDecoderDesign
from headway.text.sentencepieces import SentencePieces
from headway.text.unicode import SPACE_MARK
from headway.version import installed

PACKAGE_VERSION = "1.0"
ARGOS_VERSION = "1.9.0"  # the oldest that reads what is written here
CODE = re.compile("[a-z]{2,3}(-[A-Z][A-Za-z]{1,7})?")
# fmt: off
NAMES = {
    "ar": "Arabic", "az": "Azerbaijani", "be": "Belarusian", "bg": "Bulgarian", "bn": "Bengali", "ca": "Catalan",
    "cs": "Czech", "cy": "Welsh", "da": "Danish", "de": "German", "el": "Greek", "en": "English", "eo": "Esperanto",
    "es": "Spanish", "et": "Estonian", "eu": "Basque", "fa": "Persian", "fi": "Finnish", "fr": "French", "ga": "Irish",
    "gl": "Galician", "gu": "Gujarati", "he": "Hebrew", "hi": "Hindi", "hr": "Croatian", "hu": "Hungarian",
    "hy": "Armenian", "id": "Indonesian", "is": "Icelandic", "it": "Italian", "ja": "Japanese", "ka": "Georgian",
    "kk": "Kazakh", "ko": "Korean", "lt": "Lithuanian", "lv": "Latvian", "mk": "Macedonian", "mr": "Marathi",
    "ms": "Malay", "nb": "Norwegian", "nl": "Dutch", "no": "Norwegian", "pl": "Polish", "pt": "Portuguese",
    "ro": "Romanian", "ru": "Russian", "sk": "Slovak", "sl": "Slovenian", "sq": "Albanian", "sr": "Serbian",
    "sv": "Swedish", "sw": "Swahili", "ta": "Tamil", "te": "Telugu", "th": "Thai", "tl": "Tagalog", "tr": "Turkish",
    "uk": "Ukrainian", "ur": "Urdu", "vi": "Vietnamese", "zh": "Chinese",
}
# fmt: on


def write_argos(trained: Trained, folder: Path, quantization: str | None) -> None:
    """The package beside nothing else: its parts exist only inside it."""
    check_argos(trained)
    name = package_name(trained)
    convert(trained.design, trained.tensors, *trained.pieces(), folder / "model", quantization)
    trained.source.save(folder, "sentencepiece")
    (folder / "sentencepiece.spm").rename(folder / "sentencepiece.model")
    (folder / "metadata.json").write_text(json.dumps(metadata(trained), indent=2) + "\n", encoding="utf-8")
    (folder / "README.md").write_text(trained.card or f"# {trained.name}\n", encoding="utf-8")
    parts = sorted(path for path in folder.rglob("*") if path.is_file())
    with zipfile.ZipFile(folder / f"{name}.argosmodel", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as package:
        for path in parts:
            package.write(path, f"{name}/{path.relative_to(folder).as_posix()}")


def check_argos(trained: Trained) -> None:
    if not isinstance(trained.design, EncoderDecoderDesign):
        raise UsageError("an Argos package translates, and this is a language model; use --to hf or --to ctranslate2")
    if not isinstance(trained.source, SentencePieces):
        raise UsageError("an Argos package holds sentencepiece models; this model's source is cut otherwise")
    if trained.source.tags:
        raise UsageError("an Argos package knows one pair of languages, and this model chooses among several by tags")
    if not all(CODE.fullmatch(code) for code in trained.languages):
        raise UsageError(
            f"an Argos package names its languages, and this model's are {'-'.join(trained.languages)!r}; "
            "give them as --languages en-de"
        )


def package_name(trained: Trained) -> str:
    source, target = trained.languages
    return f"translate-{source}_{target}-{PACKAGE_VERSION.replace('.', '_')}"


def metadata(trained: Trained) -> dict[str, str]:
    source, target = trained.languages
    return {
        "package_version": PACKAGE_VERSION,
        "argos_version": ARGOS_VERSION,
        "from_code": source,
        "from_name": NAMES.get(source, source),
        "to_code": target,
        "to_name": NAMES.get(target, target),
        "type": "translate",
        "headway_version": installed("headway"),
    }


def check_package(folder: Path, trial: Trial) -> Engine:
    """Unpack the archive as Argos does, cut and join as Argos does, and let the model in it speak."""
    name = package_name(trial.trained)
    with zipfile.ZipFile(folder / f"{name}.argosmodel") as package:
        package.extractall(folder)
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / name / "sentencepiece.model"))
    for text, source, output in zip(trial.texts, trial.sources, trial.outputs, strict=True):
        check_text(pieces, trial, text, source, output)
    return open_ctranslate2(folder / name / "model", trial.trained, trial.steps)


def check_text(
    pieces: sentencepiece.SentencePieceProcessor, trial: Trial, text: str, source: list[int], output: list[int]
) -> None:
    ours = trial.trained.target.decode(output)
    names = [trial.trained.target.piece(i) for i in output]
    if SPACE_MARK not in text and pieces.encode(text) != source:
        raise RefusedError(f"Argos would cut {text[:60]!r} into other pieces than the model does; nothing was written")
    if "\ufffd" not in ours and pieces.decode_pieces(names).strip() != ours.strip():
        raise RefusedError(f"Argos would not write {ours[:60]!r} as the model does; nothing was written")
