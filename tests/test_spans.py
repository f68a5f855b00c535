"""Spans and their F1 against seqeval; schemes read, written and repaired."""

from __future__ import annotations

import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics import accuracy_score, f1_score, precision_score, recall_score
from seqeval.scheme import BILOU, IOB2, IOBES

from headway.data.schemes import NONE, SCHEMES, Scheme, detect
from headway.metrics.spans import accuracy, count_spans, tag_scores

BIO, BIOES, BMES, BILOU_SCHEME = (SCHEMES[name] for name in ("bio", "bioes", "bmes", "bilou"))
STRICT = {"bio": IOB2, "bioes": IOBES, "bilou": BILOU}


def labels_of(scheme: Scheme) -> list[str]:
    return ["O", *(f"{letter}-{kind}" for letter in sorted(scheme.letters) for kind in ("PER", "LOC"))]


def sentences(scheme: Scheme) -> st.SearchStrategy[list[list[tuple[str, str]]]]:
    """Pairs of what was said and what is right, of any sequence, broken or not."""
    label = st.sampled_from(labels_of(scheme))
    return st.lists(st.lists(st.tuples(label, label), min_size=1, max_size=8), min_size=1, max_size=4)


def sides(pairs: list[list[tuple[str, str]]]) -> tuple[list[list[str]], list[list[str]]]:
    return [[said for said, _ in one] for one in pairs], [[meant for _, meant in one] for one in pairs]


def check(scheme: Scheme, pairs: list[list[tuple[str, str]]]) -> None:
    said, meant = sides(pairs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = [100 * score(meant, said) for score in (f1_score, precision_score, recall_score)]
        strict = 100 * f1_score(meant, said, mode="strict", scheme=STRICT[scheme.name])
    scores = tag_scores(said, meant, scheme)
    assert [scores[name].value for name in ("f1", "precision", "recall")] == pytest.approx(expected)
    assert scores["f1-strict"].value == pytest.approx(strict)
    assert scores["accuracy"].value == pytest.approx(100 * accuracy_score(meant, said))


@given(sentences(BIO))
def test_bio_is_counted_as_seqeval_counts(pairs: list[list[tuple[str, str]]]) -> None:
    check(BIO, pairs)


@given(sentences(BIOES))
def test_bioes_is_counted_as_seqeval_counts(pairs: list[list[tuple[str, str]]]) -> None:
    check(BIOES, pairs)


@given(sentences(BILOU_SCHEME))
def test_strict_bilou_is_counted_as_seqeval_counts(pairs: list[list[tuple[str, str]]]) -> None:
    said, meant = sides(pairs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        strict = f1_score(meant, said, mode="strict", scheme=BILOU)
    assert count_spans(said, meant, BILOU_SCHEME.strict_spans).all.f1 == pytest.approx(strict)


@given(sentences(BMES))
def test_bmes_is_bioes_with_another_letter(pairs: list[list[tuple[str, str]]]) -> None:
    said, meant = sides(pairs)
    other_said, other_meant = ([[label.replace("M-", "I-") for label in one] for one in side] for side in (said, meant))
    one, two = tag_scores(said, meant, BMES), tag_scores(other_said, other_meant, BIOES)
    assert one.values_by_name() == two.values_by_name()


@pytest.mark.parametrize("scheme", [BIO, BIOES, BMES, BILOU_SCHEME], ids=lambda scheme: scheme.name)
@given(data=st.data())
def test_repaired_sequences_keep_their_spans_and_are_sound(scheme: Scheme, data: st.DataObject) -> None:
    labels = data.draw(st.lists(st.sampled_from(labels_of(scheme)), max_size=9))
    mended = scheme.repair(labels)
    assert scheme.spans(mended) == scheme.strict_spans(mended) == scheme.spans(labels)
    assert scheme.repair(mended) == mended
    edges = [None, *mended, None]
    assert all(scheme.follows(one, two) for one, two in zip(edges, edges[1:], strict=False)) or mended == []


@pytest.mark.parametrize("scheme", [BIO, BIOES, BMES, BILOU_SCHEME], ids=lambda scheme: scheme.name)
@given(data=st.data())
def test_neighbours_that_may_follow_make_sound_sequences(scheme: Scheme, data: st.DataObject) -> None:
    """A sequence needs no repair exactly if all its neighbours are allowed."""
    labels = data.draw(st.lists(st.sampled_from(labels_of(scheme)), min_size=1, max_size=6))
    edges = [None, *labels, None]
    allowed = all(scheme.follows(one, two) for one, two in zip(edges, edges[1:], strict=False))
    assert allowed == (scheme.repair(labels) == labels)


@pytest.mark.parametrize(
    ("labels", "name"),
    [
        (["O", "B-PER", "I-PER"], "bio"),
        (["O", "I-PER"], "bio"),
        (["B-A", "I-A", "E-A", "S-A", "O"], "bioes"),
        (["O", "B-A", "M-A", "E-A"], "bmes"),
        (["B-A", "L-A", "U-B"], "bilou"),
        (["NOUN", "VERB"], "none"),
        (["O"], "none"),
        (["B", "I", "O"], "bio"),
    ],
)
def test_schemes_are_found_by_their_letters(labels: list[str], name: str) -> None:
    assert detect(labels).name == name


def test_labels_without_a_scheme_have_an_accuracy_only() -> None:
    scores = tag_scores([["NOUN", "VERB"]], [["NOUN", "NOUN"]], NONE)
    assert scores.values_by_name() == {"accuracy": 50.0}
    assert accuracy([], []) == 0.0
