"""Raw text in, raw text out: order, emptiness, bounds, constraints, threads."""

from __future__ import annotations

import random
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway import DecodingOptions, Translator
from headway.data.glossary import Glossary
from headway.errors import UsageError
from headway.text.sentences import sentences
from model_folders import TEXT, random_folder

SPECIAL = ("<s>", "</s>", "<pad>", "<2de>", "<unk>")


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    return Translator.load(random_folder(tmp_path_factory.mktemp("model")), device="cpu", engine="torch")


def test_one_for_each_line_in_order_and_empty_stays_empty(translator: Translator) -> None:
    lines = ["", *TEXT, "   ", TEXT[0]]
    found = translator(lines, beam=2)
    assert len(found) == len(lines)
    assert [one.source for one in found][1:-2] == TEXT
    assert found[0].text == "" and found[-2].text.strip() == ""
    assert found[1].text == found[-1].text


@pytest.mark.parametrize("asked", ["abc", "0", "-3", ""])
def test_a_window_that_is_no_number_of_lines_is_refused(
    translator: Translator, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    monkeypatch.setenv("HEADWAY_WINDOW", asked)
    with pytest.raises(UsageError, match="HEADWAY_WINDOW is"):
        list(translator.stream(TEXT))


def test_batched_shuffled_and_alone_are_the_same(translator: Translator) -> None:
    together = {line: one for line, one in zip(TEXT, translator(TEXT, beam=3), strict=True)}
    shuffled = random.Random(1).sample(TEXT, len(TEXT))
    for line, one in zip(shuffled, translator(shuffled, beam=3), strict=True):
        assert one.text == together[line].text
        assert one.score == pytest.approx(together[line].score, abs=1e-4)
    for line in TEXT[:3]:
        assert translator([line], beam=3)[0].text == together[line].text


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(max_size=80), min_size=1, max_size=16))
def test_any_text_is_answered_within_bounds_and_leaks_nothing(translator: Translator, lines: list[str]) -> None:
    found = translator(lines, beam=1)
    assert len(found) == len(lines)
    for line, one in zip(lines, found, strict=True):
        assert len(one.tokens) <= 512
        leaked = [piece for piece in SPECIAL if piece in one.text and piece not in line]
        assert not leaked


def test_n_best_is_sorted_and_distinct(translator: Translator) -> None:
    one = translator([TEXT[0]], beam=4, n_best=4)[0]
    several = [one, *one.alternatives]
    assert len({alternative.text for alternative in several}) == len(several) == 4
    assert [a.score for a in several] == sorted((a.score for a in several), reverse=True)


def test_terms_of_a_glossary_come_out(translator: Translator) -> None:
    glossary = Glossary((("dog", "Hündchen"), ("snow", "snow")))
    text = translator(["a dog runs through the snow ."], glossary=glossary, beam=4)[0].text
    assert "Hündchen" in text and "snow" in text
    assert "Hündchen" not in translator(["a cat"], glossary=glossary, beam=4)[0].text


def test_a_term_is_a_whole_word() -> None:
    assert Glossary((("cat", "Katze"),)).wanted("the category of a cat") == ["Katze"]
    assert Glossary((("cat", "Katze"),)).wanted("concatenate") == []
    assert Glossary((("big cat", "Löwe"), ("cat", "Katze"))).wanted("a big cat") == ["Löwe"]


def by_every_term(glossary: Glossary, source: str) -> list[str]:
    """The rule, term by term."""
    found: list[str] = []
    for term, target in sorted(glossary.terms, key=lambda pair: -len(pair[0])):
        pattern = rf"(?<!\w){re.escape(term)}(?!\w)" if term[:1].isascii() else re.escape(term)
        source, count = re.subn(pattern, "\0", source)
        found += [target] * min(count, 1)
    return found


LETTERS = st.text("ab -猫狗é", max_size=4)


@settings(max_examples=300)
@given(st.lists(LETTERS, max_size=12), st.text("ab -猫狗é", max_size=24))
def test_terms_are_found_as_if_each_was_asked(terms: list[str], source: str) -> None:
    glossary = Glossary(tuple((term, str(place)) for place, term in enumerate(terms)))
    assert glossary.wanted(source) == by_every_term(glossary, source)


@pytest.mark.parametrize("row", ["a\tb\tc", "\tb", "a\t", "x" * 300])
def test_a_malformed_glossary_row_is_named(tmp_path: Path, row: str) -> None:
    path = tmp_path / "terms.tsv"
    path.write_text(f"good\tgut\n# remark\n\n{row}\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"terms\.tsv:4: a glossary row is source<TAB>target"):
        Glossary.read(path)


def test_a_prefix_is_kept_and_alignments_are_inside(translator: Translator) -> None:
    one = translator([TEXT[1]], prefix="Zwei", alignments=True)[0]
    assert one.text.startswith("Zwei")
    words = len(TEXT[1].split())
    assert one.alignment and all(0 <= a < words and b >= 0 for a, b in one.alignment)


def test_long_paragraphs_are_cut_and_joined(translator: Translator) -> None:
    paragraph = " ".join(TEXT[i % 3].capitalize().replace(" .", "") + "." for i in range(30))
    one = translator([paragraph], beam=1)[0]
    assert one.source == paragraph and one.text
    endless = translator(["x" * 3000], beam=1)[0]
    assert endless.text


def test_sentences_of_a_line_can_be_translated_one_by_one(translator: Translator) -> None:
    first, second = (TEXT[i].capitalize().replace(" .", "") + "." for i in (1, 2))
    apart = translator([first, second], n_best=2, alignments=True)
    both = translator([f"{first} {second}"], n_best=2, alignments=True, split=True)[0]
    assert both.text == " ".join(one.text for one in apart)
    assert [other.text for other in both.alternatives] == [" ".join(one.alternatives[0].text for one in apart)]
    words = len(first.split()), len(apart[0].text.split())
    shifted = [(words[0] + a, words[1] + b) for a, b in apart[1].alignment]
    assert both.alignment == [*apart[0].alignment, *shifted]
    assert translator([f"{first} {second}"])[0].text != both.text  # a line is one text unless told otherwise


@given(st.text(alphabet="aB.!? \n。！\"'", max_size=200))
def test_sentences_join_to_the_text(text: str) -> None:
    assert "".join(part + gap for part, gap in sentences(text)) == text


def test_sentences_end_where_a_reader_thinks() -> None:
    text = "Dr. Who came. He left! Did he? 你好。再见！"
    assert [part for part, _ in sentences(text)] == ["Dr. Who came.", "He left!", "Did he?", "你好。", "再见！"]


def test_threads_do_not_disturb_one_another(translator: Translator) -> None:
    alone = [one.text for one in translator(TEXT, beam=2)]
    with ThreadPoolExecutor(4) as pool:
        for texts in pool.map(lambda _: [one.text for one in translator(TEXT, beam=2)], range(8)):
            assert texts == alone


def test_scores_of_given_pairs_are_those_of_search(translator: Translator) -> None:
    """The same tokens cost the same, whether search found them or they are given."""
    given = ["two men sit", "a dog runs", "the big ball"]
    scored = translator.score(TEXT[:3], given)
    for source, text, again in zip(TEXT[:3], given, scored, strict=True):
        assert again.ids == translator.tokenizers.target.encode(text)
        alone = translator.score([source], [text])[0]  # without padding
        assert alone.total == pytest.approx(again.total, abs=1e-3)
        assert again.total == pytest.approx(sum(again.token_scores), abs=1e-3)


@pytest.mark.parametrize(
    ("manner", "said"),
    [
        ({"beam": 0}, "beam is 0"),
        ({"beam": 2, "n_best": 3}, "n-best is 3"),
        ({"to": "fr"}, "language 'fr' is not in this model"),
        ({"alpha": -1.0}, "alpha is -1.0; it must be from 0 to 10"),
    ],
)
def test_wrong_wishes_are_refused_in_one_line(translator: Translator, manner: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        translator(TEXT[:1], **manner)


def test_tags_choose_the_language(tmp_path: Path) -> None:
    translator = Translator.load(random_folder(tmp_path / "m", tags=("de", "fr")), device="cpu", engine="torch")
    assert translator(["a dog"], to="de", beam=1)[0].text
    expected = translator(["a dog"], to="de", beam=1)[0].text
    assert [translator(["a dog"], to=code, beam=1)[0].text for code in ("DE", "de-AT", "De_de")] == [expected] * 3
    with pytest.raises(UsageError, match="it has de, fr"):
        translator(["a dog"], to="es")


def test_options_are_given_whole_or_by_name(translator: Translator) -> None:
    options = DecodingOptions(beam=3, n_best=2)
    whole, named = translator(TEXT[:2], options), translator(TEXT[:2], beam=3, n_best=2)
    assert whole == named
    assert translator(TEXT[:2], options, n_best=1) == translator(TEXT[:2], beam=3)


def test_sampling_repeats_with_its_seed_and_best_chooses_among_samples(translator: Translator) -> None:
    first = translator(TEXT[:2], temperature=1.0, seed=3, beam=1)
    assert [one.text for one in first] == [one.text for one in translator(TEXT[:2], temperature=1.0, seed=3, beam=1)]
    assert translator(TEXT[:1], best=True, beam=2)[0].text
