"""HTML keeps its markup: to the letter where nothing is translated, tag by tag where words move."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import html as lxml_html

from headway.serve.markup import Markup
from headway.serve.projection import Projection, origins, units
from headway.serve.tags import Dialect, Html, Xml

HTML = Html()
TAG = re.compile(r"</?[a-z][^>]*>", re.IGNORECASE)

BROKEN = [
    "<b>never closed", "stray close</b> tag", "<b><i>wrong order</b></i>", "<a href='x>quote runs on",
    '<a href="x>y">fine</a> z', "<", "a < b and c > d", "<3 love", "<>", "</>", "< b>no tag</ b>", "<b", "</b",
    "text <a href", "<!-- open comment", "<!-->x-->", "<!doctype html><p>one<p>two", "<![CDATA[ x ]]> y",
    "<?php echo 'a > b' ?> rest", "<b<i>odd</i>", "<b/>self</b>", "<br></br>x<br/>",
    "<table>loose<tr><td>cell</table>", "<ul><li>one<li>two</ul>", "<script>if (a < b) '</b>'</script>then",
    "<script>never closed", "<style>p > a {}</style>x", "&amp &lt; &unknown; &#x41; &#99999999; &;",
    "<p title='<b>'>x</p>", "\x00<b>\x00</b>\ufeff", "<b>" * 60 + "deep" + "</b>" * 60, "<b></b><i></i>empty<u></u>",
    "<textarea><b>raw</textarea>x", "<title>a > c</title>d", "<plaintext><b>all raw",
    "<p translate=no>unclosed <b>x", "<SPAN CLASS=NoTranslate>Up</SPAN> x", "<a\nhref\n=\n'b'\n>new\nline</a\n>",
    "<img src=a.png>alone", "one<wbr>two", "<custom-tag>x</custom-tag>", "<b>one. two.</b> Three. <i>Four. Five</i>.",
]  # fmt: skip


@dataclass(frozen=True)
class Said:
    text: str
    alignment: list[tuple[int, int]] = field(default_factory=list)


def loud(text: str) -> str:
    """Upper case that keeps the number of characters, and names of characters as they are."""
    return "".join(upper if len(upper := letter.upper()) == 1 else letter for letter in text)


def shouted(document: str, dialect: Dialect = HTML) -> str:
    markup = Markup(document, dialect)
    return markup.rendered([Said(loud(text)) for text in markup.texts])


def unchanged(document: str, dialect: Dialect = HTML) -> str:
    markup = Markup(document, dialect)
    return markup.rendered([Said(text) for text in markup.texts])


# ---------------------------------------------------------------- kept to the letter

BITS = [*"<>/!-='\"& \n.;#xab", "<b>", "</b>", "<i>", "</i>", "<p>", "<!--", "-->", "&amp;", "one. Two"]
SOUP = st.lists(st.sampled_from(BITS), max_size=30).map("".join)


@pytest.mark.parametrize("dialect", [HTML, Xml(), Xml(ignored=frozenset("i"), outline=False)])
@settings(max_examples=300)
@given(document=SOUP)
def test_what_is_not_translated_stays_to_the_letter(dialect: Dialect, document: str) -> None:
    assert "".join(token.raw for token in dialect.tokens(document)) == document
    assert unchanged(document, dialect) == document


@pytest.mark.parametrize("dialect", [HTML, Xml(), Xml(ignored=frozenset("i"), outline=False)])
@settings(max_examples=200)
@given(document=SOUP)
def test_every_tag_of_any_soup_comes_out_once(dialect: Dialect, document: str) -> None:
    before, after = (
        Counter(token.raw for token in dialect.tokens(text) if token.kind != "text")
        for text in (document, shouted(document, dialect))
    )
    assert after == before


@pytest.mark.parametrize("document", BROKEN)
def test_broken_html_survives(document: str) -> None:
    assert unchanged(document) == document
    assert Counter(TAG.findall(shouted(document))) == Counter(TAG.findall(document))


def test_long_broken_html_takes_no_long_time() -> None:
    """None may take time that grows with the square of the length."""
    for piece in ("<a", '<a b="', "<!--", "&", "&amp", "</", "<b>", "</b>x", "<b>x</b>", "x ", "=", "<!", "<title>"):
        document = piece * (20_000 // len(piece))
        assert unchanged(document) == document
    for piece in ("<a", '<a b="', "<!--", "<![CDATA[", "<?", "<![", "&amp", "&a", "</b>x", "<b/>", "<b>x</b>", "x "):
        document = piece * (20_000 // len(piece))
        assert unchanged(document, Xml()) == document


KEPT = [
    '<span class="h-card" translate="no"><a href="https://a.example/@bob" class="u-url">@<span>bob</span></a></span>',
    '<a href="https://a.example/?a=1&amp;b=2" translate="no"><span class="invisible">https://</span>a.example</a>',
    '<p class="x notranslate y">Keep <b>all</b> of it</p>', "<div translate='no'><div>in</div>out</div>",
    "<script>var a = '<p>hello</p>'</script>", "<style>p { color: red }</style>", "<!-- a comment -->",
    "<code>for x in y</code>", "<svg><text>drawn</text></svg>", "<pre translate=no>\n  x\n</pre>",
    '<img src="cat.png" alt="a cat">', "<!doctype html>",
]  # fmt: skip


@pytest.mark.parametrize("kept", KEPT)
def test_what_must_stay_stays(kept: str) -> None:
    document = f"<p>hello {kept} world</p><p>{kept}</p>"
    assert shouted(document) == f"<p>HELLO {kept} WORLD</p><p>{kept}</p>"


def test_translations_cannot_bring_markup() -> None:
    markup = Markup("say <b>hello</b> &amp; bye")
    assert markup.texts == ["say hello & bye"]
    evil = markup.rendered([Said("<script>alert('1')</script> & </b>")])
    assert Counter(TAG.findall(evil)) == Counter(["<b>", "</b>"])
    assert "".join(lxml_html.fromstring(f"<p>{evil}</p>").itertext()) == "<script>alert('1')</script> & </b>"


# ---------------------------------------------------------------- trees of well-formed documents

WORDS = st.lists(st.sampled_from("one two three four five six".split()), min_size=1, max_size=4).map(" ".join)  # noqa: SIM905


def elements(names: list[str], inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(st.sampled_from(names), inner).map(lambda pair: f"<{pair[0]}>{pair[1]}</{pair[0]}>")


INLINE = st.recursive(
    WORDS, lambda inner: st.lists(elements(["b", "i", "span"], inner) | WORDS, min_size=1, max_size=4).map(" ".join)
)
BLOCKS = st.lists(elements(["p", "div", "h1", "li"], INLINE), min_size=1, max_size=4).map("\n".join)


def drawn(document: str) -> list[object]:
    """A tree as another library reads it."""

    def draw(element: lxml_html.HtmlElement) -> list[object]:
        found: list[object] = [element.tag, element.text]
        for child in element:
            found += [draw(child), child.tail]
        return found

    return draw(lxml_html.fromstring(f"<section>{document}</section>"))


@settings(max_examples=100)
@given(BLOCKS)
def test_word_for_word_every_word_keeps_its_tags(document: str) -> None:
    expected = re.sub(r"(<[^>]*>)|([^<]+)", lambda match: match[1] or match[2].upper(), document)
    assert drawn(shouted(document)) == drawn(expected)


@settings(max_examples=200)
@given(INLINE, st.lists(st.sampled_from(["uno", "dos,", "tres", "四五。", "(x)"]), max_size=8), st.data())
def test_wherever_words_go_the_tree_of_tags_stays(document: str, words: list[str], data: st.DataObject) -> None:
    """Each element is found once, inside the same parent, whatever the translation and the alignment."""
    numbers = iter(range(1000))
    document = re.sub(r"<(\w+)>", lambda match: f"<{match[1]} id={next(numbers)}>", document)
    markup = Markup(document)
    said = []
    for text in markup.texts:
        sources = st.integers(0, len(text.split()) - 1)
        said.append(Said(" ".join(words), [(data.draw(sources), number) for number in range(len(words))]))
    made = markup.rendered(said)

    def parents(text: str) -> dict[str, str]:
        tree = lxml_html.fromstring(f"<section>{text}</section>")
        return {one.get("id"): one.getparent().get("id") for one in tree.iter() if one.get("id")}

    assert parents(made) == parents(document)
    assert len(TAG.findall(made)) == len(TAG.findall(document))
    assert (
        "".join(lxml_html.fromstring(f"<p>{made}</p>").itertext()).split() == " ".join(one.text for one in said).split()
    )


# ---------------------------------------------------------------- words move


def test_tags_follow_their_words() -> None:
    markup = Markup('I saw <a href="x">the <b>red</b> house</a> yesterday<img src=y>.')
    links = [(0, 0), (1, 1), (5, 2), (2, 3), (3, 4), (4, 5), (1, 6)]
    made = markup.rendered([Said("Ich habe gestern das rote Haus gesehen.", links)])
    assert made == 'Ich habe gestern<img src=y> <a href="x">das <b>rote</b> Haus</a> gesehen.'


def test_an_element_never_loses_all_of_its_words() -> None:
    markup = Markup("one <a>two</a> three")
    assert markup.rendered([Said("uno tres", [(0, 0), (2, 1)])]) in ("<a>uno</a> tres", "uno <a>tres</a>")


def test_units_are_words_signs_and_chinese_characters() -> None:
    text = "Don't (go) 東京へ!"
    assert [text[unit.start : unit.end] for unit in units(text)] == [*"Don ' t ( go )".split(), "東", "京", "へ", "!"]  # noqa: SIM905
    assert origins(units("a b, c"), units("x y, z"), []) == [0, 1, 2, 3]


def test_chinese_has_no_spaces_but_tags_find_their_place() -> None:
    (placed,) = Projection("我爱东京。", "我愛東京。", []).place(Markup("我爱<b>东京</b>。").sentences[0].nodes)
    assert (placed.start, placed.end) == (2, 4)


# ---------------------------------------------------------------- XML


def texts(document: str, **rules: set[str] | bool) -> list[str]:
    """What is translated of an XML document."""
    given = {name: frozenset(rule) if isinstance(rule, set) else rule for name, rule in rules.items()}
    return Markup(document, Xml(**given)).texts  # pyright: ignore[reportArgumentType]


def test_xml_elements_with_text_beside_them_stay_in_the_sentence() -> None:
    assert texts('A <g id="1">dog</g> runs.') == ["A dog runs."]
    assert texts('A <x id="1"/> dog<ph/> runs.<bx/>') == ["A dog runs."]
    assert texts("<doc><par>A <T>big</T> dog.</par><par>A cat.</par></doc>") == ["A big dog.", "A cat."]
    assert texts("<source>A <g>dog <mrk>and</mrk></g> cat</source>") == ["A dog and cat"]
    assert texts("<p>A dog.</p><p>A cat</p> sleeps<br/>here") == ["A dog.", "A cat", "sleeps", "here"]


def test_xml_names_are_compared_by_case() -> None:
    assert texts("A <g>dog</G> runs.") == ["A", "dog", "runs."], "not one element: the tags stay where they are"
    assert texts("A <STYLE>dog</STYLE> <code>runs</code>.") == ["A dog runs."], "nothing is raw or protected by name"


def test_xml_tags_follow_their_words() -> None:
    markup = Markup('The <g id="1">red</g> <ph id="2"/>house.', Xml())
    made = markup.rendered([Said("la maison rouge .", [(0, 0), (2, 1), (1, 2), (2, 3)])])
    assert made == 'la <ph id="2"/>maison <g id="1">rouge</g> .'


def test_xml_tags_that_a_client_names() -> None:
    """The example of DeepL's own client."""
    document = """<document><meta><title>A document's title</title></meta><content><par>
        <span>This is a sentence split</span> <span>across two &lt;span&gt; tags.</span></par>
        <par>Here is a sentence. Followed by a second one.</par><raw>Not translated.</raw></content></document>"""
    rules = {"non_splitting": {"span"}, "splitting": {"title", "par"}, "ignored": {"raw"}}
    wanted = ["A document's title", "This is a sentence split across two <span> tags."]
    wanted += ["Here is a sentence.", "Followed by a second one."]
    assert texts(document, outline=False, **rules) == texts(document, **rules) == wanted
    assert texts("a <i>b</i> c", splitting={"i"}) == ["a", "b", "c"]
    assert texts("<i>a</i> <u>b</u>", outline=False) == ["a b"]
    assert texts("a <p>b</p> c", outline=False) == ["a b c"]


def test_xml_elements_that_are_ignored_stay_whole_in_their_place() -> None:
    document = "open the <x>Settings &amp; <b>more</b></x> page"
    assert texts(document, ignored={"x"}) == ["open the page"]
    assert shouted(document, Xml(ignored=frozenset("x"))) == "OPEN THE <x>Settings &amp; <b>more</b></x> PAGE"


def test_xml_entities_and_sections() -> None:
    document = (
        "<a>x &amp; y &eacute;&#160;&custom; <![CDATA[<b> ]] >]]> <?php 1 > 2 ?>z<!DOCTYPE a [<!ENTITY b 'c'>]></a>"
    )
    assert texts(document) == ["x & y é\xa0 z".replace("\xa0 ", " ")]
    made = shouted(document, Xml())
    for kept in ("&amp;", "&custom;", "<![CDATA[<b> ]] >]]>", "<?php 1 > 2 ?>", "<!DOCTYPE a [<!ENTITY b 'c'>]>"):
        assert kept in made
    assert "&nbsp;" not in made and "É" in made
