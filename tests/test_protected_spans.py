"""What a pattern matches comes out to the letter, or is named as lost."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from bench.markup import EMPHASIS, KEEP
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headway import Translator
from headway.data.glossary import Glossary
from headway.errors import UsageError
from headway.search import Limits
from headway.text.protected_spans import Span, compiled, hidden, lost, phrases_of, pieces, seam, spans_of, unbroken
from headway.text.sentences import sentences
from headway.text.tokenizer import Characters, Subword, Tokenizer, Words
from model_folders import TEXT, random_folder

CHINESE = [
    "返回一个新的对象。",
    "如果出错则返回空值，并设置异常。",
    "这个函数 接受两个 参数（名称和值）",
    "{name} 模块 ``x``。",
]
CODE, BRACES = r"``.+?``", r"\{[^}]*\}"
QUOTED = "«[^»]*»"
ANY_SPAN = st.text(st.characters(exclude_characters="«»", exclude_categories=["Cs"]), max_size=8).map("«{}»".format)


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    return Translator.load(random_folder(tmp_path_factory.mktemp("model")), device="cpu", engine="torch")


def found(text: str, *patterns: str) -> list[str]:
    return [span.text for span in spans_of(text, compiled(patterns))]


# ---------------------------------------------------------------- finding


@pytest.mark.parametrize("pattern", [r"(a|a)+$", r"(a|aa)+b", r"(.*,){25}x"])
def test_a_pattern_that_takes_too_long_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch, pattern: str) -> None:
    monkeypatch.setattr("headway.text.protected_spans.SECONDS", 0.2)
    began = time.monotonic()
    with pytest.raises(UsageError, match=f"^keep {re.escape(repr(pattern))}: it takes more than 0.2 seconds") as error:
        spans_of("a" * 100 + "," * 100 + "!", compiled([pattern]))
    assert "\n" not in str(error.value) and time.monotonic() - began < 5


def test_the_limit_is_for_all_patterns_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.text.protected_spans.SECONDS", 0.2)
    began = time.monotonic()
    with pytest.raises(UsageError, match="0.2 seconds"):
        spans_of("a" * 10_000, compiled([f"(a+){{{count}}}b" for count in range(1, 100)]))
    assert time.monotonic() - began < 5


def test_of_matches_that_overlap_the_first_and_longest_counts() -> None:
    assert found("see :class:`x` and `y`_", r"`\w+`_?", r":\w+:`\w+`") == [":class:`x`", "`y`_"]
    assert found("``a`` {b} ``a``", BRACES, CODE) == ["``a``", "{b}", "``a``"]
    assert found("abcd", "bc", "ab", "cd") == ["ab", "cd"]
    assert found("a b", r"\b") == []  # a place is not a span


def test_the_benchmark_finds_markup() -> None:
    text = "``a`b`` or :c:func:`~x.y`, :ref:`a title <place>`, `link`_ and |version|; 1*2*3, *word* a||b"
    assert found(text, *KEEP, EMPHASIS) == ["``a`b``", ":c:func:`~x.y`", "`link`_", "|version|", "*word*"]


@pytest.mark.parametrize("pattern", ["(", "[a", "a{99999999999}", "(?P<x>", "*", "a*", "x?|y", "^", ""])
def test_what_is_no_pattern_is_refused_in_one_line(translator: Translator, pattern: str) -> None:
    with pytest.raises(UsageError, match=f"^keep {re.escape(repr(pattern))}: ") as error:
        translator(["a dog"], keep=["fine", pattern])
    assert "\n" not in str(error.value)


def test_one_string_is_not_a_list_of_patterns(translator: Translator) -> None:
    with pytest.raises(UsageError, match="give a list"):
        translator(["a dog"], keep="dog")


def test_a_place_in_the_text_serves_one_span() -> None:
    assert lost(["``a``", "a", "``a``"], "``a`` a") == ["``a``"]
    assert lost(["``a``", "a"], "``a``") == ["a"]
    assert lost(["``a``", "``b``"], "``a``b``") == ["``b``"]
    assert lost(["x", "x"], "x, x") == lost([], "x") == []


def test_no_sentence_ends_within_a_span() -> None:
    text = "One. Now ``Two. Three! Four`` five. Six."
    spans = spans_of(text, compiled([CODE]))
    assert unbroken(sentences(text), spans) == [("One.", " "), ("Now ``Two. Three! Four`` five.", " "), ("Six.", "")]
    assert hidden("a {b} c", spans_of("a {b} c", compiled([BRACES]))) == "a \0\0\0 c"


# ---------------------------------------------------------------- saying


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return Subword(algorithm=request.param, size=420).learn(CHINESE * 10)


@settings(max_examples=150)
@given(text=ANY_SPAN, within=st.booleans(), around=st.tuples(st.sampled_from(CHINESE), st.sampled_from(CHINESE)))
@example(text=":class:`龘😀 a  b`", within=True, around=(CHINESE[0], CHINESE[1]))
@example(text="a▁b\u3000 ", within=False, around=(CHINESE[2], CHINESE[2]))
def test_a_span_stands_to_the_letter_within_a_sentence(
    tokenizer: Tokenizer, text: str, within: bool, around: Sequence[str]
) -> None:
    """Also characters that no training text had, and spaces."""
    said = pieces(Span(1, 1 + len(text), text, within), tokenizer)
    before, after = (tokenizer.encode(one) for one in around)
    assert tokenizer.decode(said) == text
    assert tokenizer.decode([*before, *said]) == around[0] + ("" if within else " ") + text
    assert tokenizer.decode([*said, *after]).startswith(text)


def test_what_the_target_cannot_spell_is_not_demanded() -> None:
    spans = spans_of("a ``b`` c``d`` ``龘`` ``b  b``", compiled([CODE]))
    characters, words = (one.learn(["a ``b`` ``d`` ``b b``"]) for one in (Characters(), Words()))
    said = [characters.decode(ids) for ids in phrases_of(spans, characters, room=100)]
    assert said == ["``b``", "``d``", "``b  b``"]
    assert [words.decode(ids) for ids in phrases_of(spans, words, room=100)] == ["``b``", "``d``"]  # spaces are lost
    assert [characters.decode(ids) for ids in phrases_of(spans, characters, room=12)] == ["``b``", "``d``"]


# ---------------------------------------------------------------- translating


@settings(max_examples=8, deadline=None)
@given(st.lists(ANY_SPAN, min_size=1, max_size=2), st.sampled_from(["", " "]))
@example(["«»", "«»"], "")
@example(["«龘»", "«😀  ▁»"], " ")
def test_spans_come_out_to_the_letter_whatever_the_model_thinks(
    translator: Translator, spans: list[str], space: str
) -> None:
    line = "a " + f"{space}dog{space}".join([*spans, ""])
    one = translator([line], keep=[QUOTED], limits=Limits(ratio=1.2))[0]
    assert one.lost == lost(spans, one.text) == []


@pytest.mark.parametrize("manner", [{"n_best": 2}, {"beam": 1}, {"best": True}, {"temperature": 1.0}])
def test_a_span_comes_as_often_as_in_the_source_in_every_output(
    translator: Translator, manner: dict[str, object]
) -> None:
    one = translator(["a ``dog`` (``dog`` or ``a ``)"], keep=[CODE], limits=Limits(ratio=1.2), **manner)[0]
    for each in (one, *one.alternatives):
        assert each.text.count("``dog``") == 2 and "``a ``" in each.text and not each.lost


def test_only_what_lacks_a_span_is_said_anew(translator: Translator) -> None:
    plain = [one.text for one in translator(TEXT)]
    assert [one.text for one in translator(TEXT, keep=["nowhere"])] == plain
    held = [one.text for one in translator(TEXT, keep=["dog|bench|Katze"])]
    assert [a == b for a, b in zip(plain, held, strict=True)].count(False) == 3
    letter = plain[0][3]
    assert translator([TEXT[0] + letter], keep=[f"{re.escape(letter)}$"])[0].lost == []


def test_terms_of_a_glossary_are_not_looked_for_within_spans(translator: Translator) -> None:
    glossary = Glossary((("dog", "Hündchen"), ("cat", "Kätzchen")))
    text = translator(["a {dog} , a cat"], keep=[BRACES], glossary=glossary)[0].text
    assert "{dog}" in text and "Kätzchen" in text and "Hündchen" not in text


def test_a_long_line_is_not_cut_within_a_span(translator: Translator) -> None:
    code = "``x = y. Zoo! And so on``"
    for line in (f"The dog runs. A man {code} sits. " * 4, f"the dog {code} " * 6):
        one = translator([line], keep=[CODE], split=True)[0]
        assert not one.lost and one.text.count(code) >= line.count(code)


def test_a_text_without_spaces_is_cut_beside_its_spans() -> None:
    """At the place nearest to the middle where none is open."""
    text = "猫狗鸟``code(x)``鱼"
    spans = spans_of(text, compiled([CODE]))
    assert seam(len(text), spans) == text.index("``") and seam(len(text), []) == len(text) // 2
    assert seam(8, [Span(0, 4, "abcd", False), Span(4, 8, "efgh", True)]) == 4  # between two of them
    assert seam(8, [Span(0, 8, "abcdefgh", False)]) == 4  # nowhere else


def test_what_has_no_room_is_named(translator: Translator) -> None:
    one = translator(["a ``dog`` in ``snow``"], keep=[CODE], limits=Limits(ratio=0.0, extra=9))[0]
    assert one.lost == ["``snow``"] and "``dog``" in one.text and len(one.tokens) <= 9


def test_what_words_cannot_spell_is_named(tmp_path: Path) -> None:
    translator = Translator.load(random_folder(tmp_path / "words", text=Words()), device="cpu", engine="torch")
    one = translator(["a dog %s runs %d"], keep=["%[sd]", "dog", r"Ein\b"])[0]
    assert one.lost == ["%s", "%d"] and "dog" in one.text.split()
