"""Train three small models and record what they predict. See ../README.md for how it is run."""

import json
import random
import shutil
import subprocess
import sys
from pathlib import Path

import annotations
import corpora
from test_language_model import counting


def run(*words):
    command = [sys.executable, "-m", "headway", *words]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


SMALL = """precision = "fp32"
learning_rate = 1e-2
smoothing = %s
clip = 0.5
log_every = 20
validate_every = 100
checkpoint_every = 1000
keep_last = 1
keep_best = 0
schedule = { kind = "inverse_root", warmup = 20, most = 0.5 }
"""
TRANSLATOR = (
    """seed = 3
[task]
kind = "translation"
agreement = 2.0
[data]
source = "corpus.a"
target = "corpus.b"
dev_sentences = 12
[text]
kind = "words"
[model]
width = 32
heads = 2
dropout = 0.05
encoder_layers = 2
decoder_layers = 2
reads = "each"
tie = "output"
feed_forward = { kind = "relu", width = 64 }
[training]
steps = 400
watch = "chrf"
optimiser = { kind = "adamw", decay = 0.02 }
batch = { tokens = 512 }
"""
    + SMALL % 0.1
)
TAGGER = (
    """seed = 3
[task]
kind = "tagging"
head = { kind = "crf" }
letters = { kind = "cnn", width = 8 }
agreement = 1.0
word_dropout = 0.1
[data]
train = "train.conll"
[model]
width = 16
heads = 2
layers = 1
feed_forward = { kind = "relu", width = 32 }
pairs = 32
[training]
steps = 120
watch = "f1"
optimiser = { kind = "adam" }
batch = { tokens = 256 }
"""
    + SMALL % 0.0
)
LANGUAGE_MODEL = (
    """seed = 3
[task]
kind = "language_model"
segment = 12
turns = 2
forget = 0.3
agreement = 0.5
word_dropout = 0.05
[data]
train = "text.txt"
[text]
kind = "characters"
[model]
kind = "language_model"
width = 16
heads = 2
layers = 2
positions = { kind = "transformer_xl" }
residual = { kind = "pre" }
feed_forward = { kind = "relu", width = 32 }
memory = 16
tie = true
[training]
steps = 200
optimiser = { kind = "muon", decay = 0.05 }
batch = { tokens = 96 }
"""
    + SMALL % 0.05
)


def write_pairs(count=300):
    """Words of syllables, and the same words in capitals."""
    dice = random.Random(0)
    sources = [" ".join(dice.choices(corpora.WORDS[:40], k=dice.randint(2, 5))) for _ in range(count)]
    for end, lines in (("a", sources), ("b", [line.upper() for line in sources])):
        Path(f"corpus.{end}").write_text("".join(f"{line}\n" for line in lines))


def predicted(folder, lines, *words):
    Path("asked").write_text("".join(f"{line}\n" for line in lines))
    said = run("predict", folder, "--input", "asked", "--json", "--device", "cpu", *words).splitlines()
    return {"lines": lines, "words": words, "outputs": [json.loads(line) for line in said]}


def record(name, **facts):
    Path(f"{name}.json").write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n")


write_pairs()
annotations.write_tagged(Path(), 100)
Path("text.txt").write_text(counting(200))
for name, text in (("translator", TRANSLATOR), ("tagger", TAGGER), ("language_model", LANGUAGE_MODEL)):
    Path(f"{name}.toml").write_text(text)
    run("train", f"{name}.toml", "--out", name)
run("export", "translator", "--to", "headway-int8", "--out", "translator-int8", "--sample", "corpus.a", "--force")

sources = Path("corpus.a").read_text().splitlines()[:6]
sentences = ["in Anna Bob", "the dog by Mia runs home", "in Karl by Lea", "by Tom sees in Lea Mia", "a cat and Karl"]
record("translator", **predicted("translator-int8", sources))
record(
    "language_model", **predicted("language_model", ["abcdef", "cdefgh", "hijab"], "--temperature", "0", "--max", "12")
)
before = predicted("tagger", sentences)
shutil.copytree("tagger", "resumed/tagger")
run("train", "--out", "resumed/tagger", "--steps", "140")
steps = [json.loads(line) for line in Path("resumed/tagger/metrics.jsonl").read_text().splitlines()]
losses = {one["step"]: one["loss"] for one in steps if one["event"] == "step" and one["step"] > 120}
record("tagger", **before, resumed={"steps": 140, "losses": losses, **predicted("resumed/tagger", sentences)})
