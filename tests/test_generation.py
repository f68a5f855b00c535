"""Text out of a language model: every search against the plainest loop there is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from headway.commands.predict import predict
from headway.errors import UsageError
from headway.model.design import LanguageModelDesign
from headway.model.feed_forward import Relu
from headway.model.models import LanguageModel
from headway.model.positions import Learned, Rotary, TransformerXL
from headway.search import Beam, Greedy, Limits, Sample
from headway.search.prompting import MultiLineModel, PromptedModel
from headway.tasks.decoding_options import GenerationOptions
from headway.tasks.language_model.generation import Generator
from headway.text.tokenizer import Characters, Subword, Tokenizer, Words
from headway.text.vocabulary import BOS, EOS
from texts import sentences

LINES = sentences(200)
LETTERS = Characters().learn(LINES)
KINDS: dict[str, Tokenizer] = {
    "letters": LETTERS,
    "words": Words().learn(LINES),
    "pieces": Subword(size=350).learn(LINES),
}


def model(pieces: int = len(LETTERS), **changes: Any) -> LanguageModel:
    torch.manual_seed(0)
    plain: dict[str, Any] = {
        "width": 16, "heads": 2, "layers": 2, "feed_forward": Relu(width=32), "positions": Rotary(), "dropout": 0.0,
        "scale_embedding": False,
    }  # fmt: skip
    net = LanguageModelDesign(**{**plain, **changes}).build(pieces).eval()
    with torch.no_grad():
        net.head.weight.mul_(3)  # fresh models find everything equally likely
    return net


def by_hand(net: LanguageModel, prompt: list[int], count: int, window: int) -> list[int]:
    """The likeliest piece again and again, each time from the whole context; no state, no search."""
    context, written = prompt[-window:], list[int]()
    for _ in range(count):
        scores = net(torch.tensor([context]))[0, -1].clone()
        scores[:3] = -torch.inf
        written.append(int(scores.argmax()))
        if written[-1] == EOS:
            return written[:-1]
        context = [*context, written[-1]]
        context = context if len(context) <= window else context[-(window // 2) :]
    return written


@pytest.mark.parametrize("positions", [Rotary(), TransformerXL(), Learned()])
@pytest.mark.parametrize("window", [100, 8])
def test_greedy_search_is_the_plain_loop(positions: Any, window: int) -> None:
    """Also past the last position that a model knows: then the newer half is a new beginning."""
    net = model(positions=positions, longest=window)
    prompts = [[BOS, *LETTERS.encode(text)[:5]] for text in LINES[:4]]
    limits = Limits(ratio=0.0, extra=30, longest=30)
    found = Greedy(limits=limits)(PromptedModel(net, window), torch.tensor(prompts))
    with torch.no_grad():
        assert [best[0].ids for best in found] == [by_hand(net, prompt, 30, window) for prompt in prompts]


def test_a_wide_beam_finds_what_greedy_search_misses() -> None:
    net, prompt = model(), torch.tensor([[BOS, *LETTERS.encode(LINES[0])[:4]]])
    limits = Limits(ratio=0.0, extra=6, longest=6)
    greedy, beam = (
        search(PromptedModel(net, 50), prompt)[0][0] for search in (Greedy(limits=limits), Beam(limits=limits))
    )
    assert beam.score >= greedy.score


def test_several_samples_of_a_prompt_are_not_the_same() -> None:
    prompts = torch.tensor([[BOS, 7, 8], [BOS, 9, 7]])
    sample = Sample(count=5, seed=3, limits=Limits(ratio=0.0, extra=9, longest=9))
    found = sample(PromptedModel(model(), 6), prompts)
    assert [len(rows) for rows in found] == [5, 5] and len({tuple(one.ids) for one in found[0]}) > 1
    assert sample(PromptedModel(model(), 6), prompts) == found


def test_ends_of_lines_end_nothing() -> None:
    """One more piece, as likely as the end was; the end itself cannot come."""
    net = model()
    over, inner = MultiLineModel(PromptedModel(net, 50)), PromptedModel(net, 50)
    prompt = torch.tensor([[BOS, 5, 6]])
    scores, plain = (one.step(torch.tensor([BOS]), one.start(prompt)) for one in (over, inner))
    assert scores.shape == (1, len(LETTERS) + 1) and scores[0, EOS] == -torch.inf
    assert scores[0, over.line] == plain[0, EOS]
    assert torch.equal(scores.log_softmax(-1)[0, 4:-1], plain.log_softmax(-1)[0, 4:])
    texts, other = over.start(prompt), inner.start(torch.tensor([[BOS, 5, 6, EOS]]))
    over.step(torch.tensor([BOS]), texts)
    after = over.step(torch.tensor([over.line]), texts)
    assert torch.allclose(after[0, 4:-1], inner.step(torch.tensor([BOS]), other)[0, 4:], atol=1e-5)


# ---------------------------------------------------------------- text


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("whole", [False, True])
def test_what_is_heard_is_what_is_written(kind: str, whole: bool) -> None:
    tokenizer = KINDS[kind]
    generator = Generator(model(len(tokenizer)), tokenizer, 40, whole)
    heard: list[str] = []
    prompt = generator.ids(LINES[0])
    text = generator.write(
        prompt, GenerationOptions(max_new_tokens=40, temperature=0.9, top_k=9, top_p=0.9, seed=1), heard.append
    )
    assert "".join(heard) == text and (len(heard) > 5 or not text)
    assert (
        generator.write(prompt, GenerationOptions(max_new_tokens=40, temperature=0.9, top_k=9, top_p=0.9, seed=1))
        == text
    )


@pytest.mark.parametrize("kind", KINDS)
def test_prompts_come_back_as_text(kind: str) -> None:
    tokenizer = KINDS[kind]
    generator = Generator(model(len(tokenizer)), tokenizer, 40, whole=False)
    text = f"{LINES[0]}\n{LINES[1]}\n\n{LINES[2]}"
    ids = generator.ids(text)
    assert ids[0] == BOS and ids.count(EOS) == 3
    assert generator.text(ids) == text
    assert generator.text(generator.ids(f"{LINES[0]}\n")) == f"{LINES[0]}\n"
    rest = tokenizer.encode(LINES[1])
    assert text.startswith(LINES[0] + generator.after(generator.ids(LINES[0]), [EOS, *rest]))


def test_words_that_follow_words_have_a_space_before_them() -> None:
    tokenizer = KINDS["words"]
    generator = Generator(model(len(tokenizer)), tokenizer, 40, whole=False)
    first, second = LINES[0].split()[:2]
    assert generator.after(generator.ids(first), tokenizer.encode(second)) == f" {second}"
    assert generator.after(generator.ids(f"{first}\n"), tokenizer.encode(second)) == second


def test_prompts_of_every_length_are_finished_in_order() -> None:
    generator = Generator(model(), LETTERS, 60, whole=False)
    how = GenerationOptions(max_new_tokens=12, temperature=0.0)
    prompts = [generator.ids(text[:n]) for text, n in zip(LINES, (3, 0, 7, 3, 1), strict=False)]
    together = generator.finish(prompts, how)
    assert [one.ids for one in together] == [generator.finish([prompt], how)[0].ids for prompt in prompts]


@pytest.mark.parametrize(
    "wrong", [{"max_new_tokens": 0}, {"temperature": -1.0}, {"top_p": 0.0}, {"top_p": 1.5}, {"top_k": -1}, {"beam": 0}]
)
def test_impossible_options_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        GenerationOptions(**wrong)


@pytest.mark.parametrize(
    ("given", "said"),
    [({"output": Path("o")}, "--prompt and --output"), ({"input": Path("i"), "json_lines": True}, "--input, --json")],
)
def test_a_prompt_and_files_are_not_mixed(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=f"{said}: the continuation of --prompt is shown"):
        predict(Path("none"), prompt="a", **given)
