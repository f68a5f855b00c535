"""Programs written for LibreTranslate and DeepL: what each really sends, and what it reads from the answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from headway.serve.keys import make_key
from server_client import Asked, asking
from serving import FACTS, FakeWorker, said

PAIRS = [["en", "de", ""], ["de", "en", ""], ["en", "zh", ""], ["en", "pb", ""], ["he", "en", ""], ["nb", "en", ""]]
FORM = {"content-type": "application/x-www-form-urlencoded"}
HEARD: list[list[str]] = []  # what reached the model, batch by batch
MANNERS: list[dict[str, Any]] = []  # and how it should be translated


class Polyglot(FakeWorker):
    """Shouts in any language, and has two more ways to say it."""

    def __init__(self) -> None:
        super().__init__(self.say)
        self.facts = [{**FACTS, "pairs": PAIRS}]

    def say(self, message: dict[str, Any]) -> dict[str, Any]:
        HEARD.append(message["texts"])
        MANNERS.append(message["manner"])
        count = message["manner"]["n_best"] - 1
        others = {text: [{**said(text), "text": f"{text}!{n}"} for n in range(count)] for text in message["texts"]}
        return {"found": [{**said(text), "alternatives": others[text]} for text in message["texts"]]}


@pytest.fixture(scope="module")
def asked() -> Iterator[Asked]:
    with asking(Polyglot, allowed_hosts=("t.example",)) as asked:
        yield asked


def form(**fields: str) -> bytes:
    return urlencode(fields).encode()


# ---------------------------------------------------------------- what each program sends


def test_mastodon(asked: Asked) -> None:
    """A list with blanks, as HTML, with no key; the answer is as long, and says the language of each."""
    mention = '<span translate="no"><a href="https://a.example/@bob" class="u-url">@<span>bob</span></a></span>'
    post = f'<p>{mention} look at <a href="https://b.example/?a=1&amp;b=2">this page</a> &amp; tell me</p>'
    body = {
        "q": [post, "", "the warning", "yes", ""],
        "source": "en",
        "target": "de",
        "format": "html",
        "api_key": None,
    }
    reply = asked("POST", "/translate", body)
    assert reply.status == 200 and len(reply.body) < 1_000_000
    answer = reply.json()
    assert answer["translatedText"] == [
        f'<p>{mention} LOOK AT <a href="https://b.example/?a=1&amp;b=2">THIS PAGE</a> &amp; TELL ME</p>',
        *["", "THE WARNING", "YES", ""],
    ]
    assert [found["language"] for found in answer["detectedLanguage"]] == ["en"] * 5


def test_mastodon_asks_for_the_languages(asked: Asked) -> None:
    for language in asked("GET", "/languages").json():
        assert isinstance(language["code"], str) and isinstance(language["targets"], list)


def test_mastodon_without_a_source(asked: Asked) -> None:
    texts = ["<p>Das ist ein schöner Tag.</p>", "<p>Das Wetter ist gut.</p>"]
    answer = asked("POST", "/translate", {"q": texts, "source": "auto", "target": "en", "format": "html"}).json()
    assert [found["language"] for found in answer["detectedLanguage"]] == ["de", "de"]
    assert answer["translatedText"][0] == "<p>DAS IST EIN SCHÖNER TAG.</p>"


@pytest.mark.parametrize("old", ["iw", "no", "IW", "nb", "he"])
def test_discourse(asked: Asked, old: str) -> None:
    """Detects, asks for the languages, then translates a form; its codes are old ones."""

    detected = asked("POST", "/detect", form(q="This is a post in English."), FORM)
    assert detected.status == 200 and detected.json()[0]["language"] == "en"
    languages = (asked("GET", "/languages")).json()
    assert {"he", "nb", "zh-Hans"} <= {language["code"] for language in languages}
    fields = form(q="<p>a post</p>", source=old, target="en", format="html")
    reply = asked("POST", "/translate", fields, FORM)
    assert reply.status == 200 and reply.json()["translatedText"] == "<p>A POST</p>"


@pytest.mark.parametrize("code", ["zh", "zh-Hans", "ZH", "zh-CN", "zh_Hans"])
def test_chinese_goes_by_many_names(asked: Asked, code: str) -> None:
    assert asked("POST", "/translate", {"q": "tea", "source": "en", "target": code}).json()["translatedText"] == "TEA"


@pytest.mark.parametrize("code", ["pb", "pt-BR", "PT_br"])
def test_so_does_brazilian(asked: Asked, code: str) -> None:
    assert asked("POST", "/translate", {"q": "tea", "source": "en", "target": code}).status == 200


def test_codes_go_out_as_clients_know_them(asked: Asked) -> None:
    languages = {language["code"]: language for language in asked("GET", "/languages").json()}
    assert languages["en"]["targets"] == ["de", "zh-Hans", "pt-BR"]
    assert languages["zh-Hans"]["name"] == "Chinese" and languages["pt-BR"]["targets"] == []


def test_weblate(asked: Asked) -> None:
    reply = asked("POST", "/translate", form(q="Hello, %s!", source="en", target="de", api_key=""), FORM)
    assert reply.json()["translatedText"] == "HELLO, %S!"


def test_deep_translator_puts_everything_into_the_address(asked: Asked) -> None:
    query = urlencode({"q": "Größe & mehr", "source": "de", "target": "en", "format": "text", "api_key": "x"})
    assert asked("POST", f"/translate?{query}").json()["translatedText"] == "GRÖSSE & MEHR"


def test_traduzir_paginas_web_reads_the_language_it_did_not_ask_for(asked: Asked) -> None:
    reply = asked("POST", "/translate", form(q="hello", source="en", target="de", format="text"), FORM)
    assert reply.json()["detectedLanguage"]["language"] == "en"


def test_rocket_chat(asked: Asked) -> None:
    body = {
        "q": ["hello there", "a second attachment"],
        "source": "auto",
        "target": "de",
        "format": "text",
        "api_key": "",
    }
    assert asked("POST", "/translate", body).json()["translatedText"] == ["HELLO THERE", "A SECOND ATTACHMENT"]


def test_wagtail_localize_sends_html_one_by_one(asked: Asked) -> None:
    body = {"q": '<a id="a1">Read</a> <b>more</b>', "source": "en", "target": "de", "format": "html"}
    assert asked("POST", "/translate", body).json()["translatedText"] == '<a id="a1">READ</a> <b>MORE</b>'


def test_forms_in_parts(asked: Asked) -> None:
    fields = {"q": "first\r\nsecond", "source": "en", "target": "de"}
    parts = [f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{text}\r\n' for name, text in fields.items()]
    body = "".join([*parts, "--x--\r\n"]).encode()
    reply = asked("POST", "/translate", body, {"content-type": "multipart/form-data; boundary=x"})
    assert reply.json()["translatedText"] == "FIRST\nSECOND"


def test_the_languages_are_told_whatever_is_sent_along(asked: Asked) -> None:
    """Two clients send a body with a GET, one sends a POST."""
    for method, body in (("GET", b"api_key=x"), ("POST", b""), ("GET", None), ("POST", b"api_key=x")):
        assert asked(method, "/languages", body, FORM).json()[0]["code"] == "en"


def test_alternatives_are_others_once_and_not_blank(asked: Asked) -> None:
    body = {"q": "tea", "source": "en", "target": "de", "alternatives": 2}
    assert asked("POST", "/translate", body).json()["alternatives"] == ["tea!0", "tea!1"]
    assert asked("POST", "/translate", {**body, "q": ["tea", ""]}).json()["alternatives"] == [["tea!0", "tea!1"], []]
    assert asked("POST", "/translate", {**body, "format": "html"}).json()["alternatives"] == []
    assert "alternatives" not in asked("POST", "/translate", {**body, "alternatives": 0}).json()


def test_emoji_and_blanks_come_back_untouched(asked: Asked) -> None:
    for text in ("😀🎉", "", "   ", "…!", "\n\n"):
        answer = asked("POST", "/translate", {"q": text, "source": "auto", "target": "de"}).json()
        assert answer["translatedText"] == text
        assert answer["detectedLanguage"]["confidence"] == 0


def test_what_is_in_the_target_language_stays(asked: Asked) -> None:
    body = {"q": ["Das ist schon auf Deutsch.", "This is not in German yet."], "source": "auto", "target": "de"}
    answer = asked("POST", "/translate", body).json()
    assert answer["translatedText"] == ["Das ist schon auf Deutsch.", "THIS IS NOT IN GERMAN YET."]
    assert asked("POST", "/translate", {"q": "tea", "source": "en", "target": "en"}).json()["translatedText"] == "tea"


def test_nothing_to_detect(asked: Asked) -> None:
    assert asked("POST", "/detect", {"q": "12 + 3 😀"}).json() == [{"confidence": 0.0, "language": "en"}]


def test_a_foreign_language_is_called_by_its_name(asked: Asked) -> None:
    (best, *_) = asked("POST", "/detect", {"q": "Bonjour tout le monde, comment allez-vous aujourd'hui ?"}).json()
    assert best["language"] == "fr" and best["confidence"] > 90


def test_batches_reach_the_model_together(asked: Asked) -> None:
    HEARD.clear()
    asked("POST", "/translate", {"q": [f"text {number}" for number in range(20)], "source": "en", "target": "de"})
    assert [len(texts) for texts in HEARD] == [20]


def test_a_page_asks_for_its_settings(asked: Asked) -> None:
    settings = asked("GET", "/frontend/settings").json()
    assert settings["charLimit"] == 5000 and settings["frontendTimeout"] == 500 and not settings["keyRequired"]
    assert settings["language"]["source"] == {"code": "auto", "name": "Auto Detect"}
    assert ".docx" in settings["supportedFilesFormat"]


def test_suggestions_are_off(asked: Asked) -> None:
    assert asked("POST", "/suggest", {"q": "a", "s": "b", "source": "en", "target": "de"}).status == 403


# ---------------------------------------------------------------- files


def upload(name: str, data: bytes, **fields: str) -> tuple[bytes, dict[str, str]]:
    head = f'--x\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'.encode()
    rest = [f'\r\n--x\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{text}' for key, text in fields.items()]
    return head + data + "".join(rest).encode() + b"\r\n--x--\r\n", {"content-type": "multipart/form-data; boundary=x"}


def test_files_go_in_and_come_out(asked: Asked) -> None:
    body, headers = upload("../letter.txt", b"dear you\r\n\r\nbye\r\n", source="en", target="de")
    proxied = {**headers, "x-forwarded-proto": "https", "host": "t.example"}
    reply = asked("POST", "/translate_file", body, proxied)
    url = reply.json()["translatedFileUrl"]
    assert url.startswith("https://t.example/download_file/")
    file = asked("GET", url.removeprefix("https://t.example"))
    assert file.status == 200 and file.body == b"DEAR YOU\r\n\r\nBYE\r\n"
    assert file.headers["content-disposition"] == 'attachment; filename="letter_de.txt"'
    assert (asked("GET", "/download_file/..%2f..%2fetc%2fpasswd")).status == 404


@pytest.mark.parametrize("name", ["a.exe", "a.pdf", "noname", ""])
def test_other_files_are_refused(asked: Asked, name: str) -> None:
    reply = asked("POST", "/translate_file", *upload(name, b"x", source="en", target="de"))
    assert reply.status == 400 and reply.json()["error"]


def test_a_file_is_no_text_and_a_text_no_file(asked: Asked) -> None:
    body, headers = upload("a.txt", b"x", source="en", target="de")
    assert asked("POST", "/translate", body.replace(b'"file"', b'"q"'), headers).status == 400
    assert asked("POST", "/translate_file", {"file": "x", "source": "en", "target": "de"}).status == 400


def test_what_libretranslates_own_tests_expect(asked: Asked) -> None:
    assert asked("GET", "/spec").json() == asked("GET", "/openapi.json").json()
    for method, path in (("POST", "/spec"), ("GET", "/detect"), ("GET", "/translate"), ("POST", "/frontend/settings")):
        reply = asked(method, path)
        assert reply.status == 405 and "error" in reply.json(), path
    right = {"q": "Hello", "source": "en", "target": "de"}
    for body, error in (
        ({**right, "target": "zz"}, "zz is not supported"),
        ({**right, "source": "zz"}, "zz is not supported"),
        ({**right, "q": []}, "Invalid request: missing q parameter"),
        *(
            ({k: v for k, v in right.items() if k != name}, f"Invalid request: missing {name} parameter")
            for name in right
        ),
        ({**right, "alternatives": "abc"}, "Invalid request: alternatives parameter is not a number"),
        (["not", "a", "dict"], "Invalid JSON format"),
    ):
        reply = asked("POST", "/translate", body)
        assert (reply.status, reply.json()) == (400, {"error": error})
    assert asked("POST", "/detect").status == 400
    settings = asked("GET", "/frontend/settings").json()
    assert settings["language"]["source"]["code"] == "auto" and ".txt" in settings["supportedFilesFormat"]


# ---------------------------------------------------------------- DeepL


def test_deepl_with_json(asked: Asked) -> None:
    headers = {"authorization": "DeepL-Auth-Key secret"}
    reply = asked(
        "POST", "/v2/translate", {"text": ["Hello", "Bye"], "target_lang": "DE", "source_lang": "EN"}, headers
    )
    assert [item["text"] for item in reply.json()["translations"]] == ["HELLO", "BYE"]
    assert reply.json()["translations"][0]["detected_source_language"] == "EN"


def test_deepl_with_a_form(asked: Asked) -> None:
    body = urlencode(
        [("text", "Hello there"), ("text", "My friend"), ("target_lang", "DE"), ("formality", "prefer_more")]
    ).encode()
    answer = asked("POST", "/v2/translate", body, FORM).json()
    assert [item["text"] for item in answer["translations"]] == ["HELLO THERE", "MY FRIEND"]


@pytest.mark.parametrize("target", ["EN-US", "EN-GB", "en", "EN"])
def test_deepl_has_kinds_of_english(asked: Asked, target: str) -> None:
    body = {"text": "Ein <b>guter</b> Tag", "target_lang": target, "source_lang": "DE", "tag_handling": "xml"}
    assert asked("POST", "/v2/translate", body).json()["translations"][0]["text"] == "EIN <b>GUTER</b> TAG"


def test_deepl_languages_and_usage(asked: Asked) -> None:
    targets = asked("GET", "/v2/languages?type=target").json()
    assert {"language": "DE", "name": "German", "supports_formality": False} in targets
    assert "DE" in {item["language"] for item in asked("GET", "/v2/languages").json()}
    usage = asked("GET", "/v2/usage").json()
    assert usage["character_count"] < usage["character_limit"]


def test_deepl_calls_languages_by_their_regions(asked: Asked) -> None:
    """Its client refuses EN and PT as targets; a source has no region."""
    targets = {item["language"]: item["name"] for item in asked("GET", "/v2/languages?type=target").json()}
    assert targets["EN-GB"] == "English (British)" and targets["PT-BR"] == "Portuguese (Brazilian)"
    assert "EN" not in targets and {"EN-US", "ZH", "ZH-HANS", "DE"} <= targets.keys()
    sources = {item["language"] for item in asked("GET", "/v2/languages").json()}
    assert {"EN", "DE"} <= sources and not any("-" in source for source in sources)
    for target in ("ZH", "ZH-HANS", "zh-Hans", "PT-BR", "pt-br", "PT", "PT-PT"):
        body = {"text": "tea", "target_lang": target, "source_lang": "EN"}
        assert asked("POST", "/v2/translate", body).json()["translations"][0]["text"] == "TEA", target
    refused = asked("POST", "/v2/translate", {"text": "tea", "target_lang": "ZH-HANT"})
    assert refused.status == 400 and "target_lang" in refused.json()["message"]


def test_deepl_lists_of_tags_come_in_many_forms(asked: Asked) -> None:
    text = "a <x>b</x> <y>c</y>"
    for body, kind in (
        ({"text": text, "ignore_tags": ["x", "y"]}, {}),
        ({"text": text, "ignore_tags": "x,y"}, {}),
        (urlencode([("text", text), ("ignore_tags", "x"), ("ignore_tags", "y")]).encode(), FORM),
        (form(text=text, ignore_tags="x, y"), FORM),
    ):
        more = {"target_lang": "DE", "source_lang": "EN", "tag_handling": "xml"}
        given = {**body, **more} if isinstance(body, dict) else body + b"&" + urlencode(more).encode()
        assert asked("POST", "/v2/translate", given, kind).json()["translations"][0]["text"] == "A <x>b</x> <y>c</y>"


def test_deepl_ends_of_lines(asked: Asked) -> None:
    body = {"text": "one\ntwo", "target_lang": "DE", "source_lang": "EN", "show_billed_characters": True}
    for split, wanted in (("1", "ONE\nTWO"), ("nonewlines", "ONE TWO"), ("0", "ONE TWO")):
        found = asked("POST", "/v2/translate", {**body, "split_sentences": split}).json()["translations"][0]
        assert found == {"detected_source_language": "EN", "text": wanted, "billed_characters": 7}


def test_deepl_terms_go_through_the_language_between_as_they_are(asked: Asked) -> None:
    entries = "".join(f"tea{n}\tTee{n}\n" for n in range(80))
    made = {"name": "x", "source_lang": "he", "target_lang": "de", "entries": entries, "entries_format": "tsv"}
    glossary = asked("POST", "/v2/glossaries", made).json()["glossary_id"]
    body = {"text": ["tea1", "tea2 tea3"], "source_lang": "HE", "target_lang": "DE", "glossary_id": glossary}
    MANNERS.clear()
    assert asked("POST", "/v2/translate", body).status == 200
    assert [manner["glossary"] for manner in MANNERS] == [
        [[f"tea{n}", f"tea{n}"] for n in (1, 2, 3)],
        [[f"tea{n}", f"Tee{n}"] for n in (1, 2, 3)],
    ]
    MANNERS.clear()
    many = " ".join(f"tea{n}" for n in range(40))
    assert asked("POST", "/v2/translate", {**body, "text": [many, many.replace("tea", "tea4")]}).status == 200
    assert all(len(manner["glossary"]) <= 50 for manner in MANNERS)
    unknown = {**body, "glossary_id": "96ab91fd-e715-41a1-adeb-5d701f84a483"}
    assert asked("POST", "/v2/translate", unknown).status == 404
    assert asked("POST", "/v2/translate", {**body, "target_lang": "EN-GB"}).status == 400
    assert asked("POST", "/v2/translate", {**body, "source_lang": None}).status == 400


@pytest.mark.parametrize(
    "entries", ["", " \n", "one", "one\t", "a\tb\na\tc", "a\tb\tc", "x" * 300 + "\ty", "a\tb\0", "a\t\x1bb"]
)
def test_deepl_refuses_wrong_entries(asked: Asked, entries: str) -> None:
    body = {"name": "x", "source_lang": "en", "target_lang": "de", "entries": entries, "entries_format": "tsv"}
    reply = asked("POST", "/v2/glossaries", body)
    assert reply.status == 400 and "entries" in reply.json()["message"]


def test_deepl_says_what_is_wrong_in_its_own_way(asked: Asked) -> None:
    reply = asked("POST", "/v2/translate", {"target_lang": "DE"})
    assert reply.status == 400 and reply.json() == {"message": "Invalid request: missing text parameter"}


# ---------------------------------------------------------------- keys


def test_keys_come_in_the_body_the_address_or_a_header(tmp_path: Path) -> None:
    key = make_key(tmp_path / "keys")
    body = {"q": "tea", "source": "en", "target": "de"}
    with asking(Polyglot, key_file=tmp_path / "keys") as asked:
        assert asked("POST", "/translate", body).status == 401
        assert asked("POST", "/translate", {**body, "api_key": "wrong"}).status == 403
        assert asked("POST", "/translate", {**body, "api_key": key}).status == 200
        assert asked("POST", "/detect", form(q="tea", api_key=key), FORM).status == 200
        assert asked("POST", f"/translate?{urlencode({**body, 'api_key': key})}").status == 200
        deepl = {"text": "tea", "target_lang": "DE", "source_lang": "EN"}
        assert asked("POST", "/v2/translate", deepl, {"authorization": f"DeepL-Auth-Key {key}"}).status == 200
        assert asked("POST", "/v2/translate", deepl).status == 401
        assert asked("GET", "/languages").status == 200
        file = upload("a.txt", b"tea", source="en", target="de", api_key=key)
        url = asked("POST", "/translate_file", *file).json()["translatedFileUrl"]
        assert asked("GET", url.removeprefix("http://127.0.0.1:5000")).body == b"TEA"  # its name is the key to it
        assert asked("GET", "/frontend/settings").json()["keyRequired"]


def test_pages_of_other_sites_may_ask_only_if_that_is_wished() -> None:
    origin = {"origin": "https://b.example"}
    with asking(Polyglot) as asked:
        assert "access-control-allow-origin" not in asked("GET", "/languages", None, origin).headers
    with asking(Polyglot, cors_origins=("*",)) as asked:
        assert asked("GET", "/languages", None, origin).headers["access-control-allow-origin"] == "*"
        wish = {**origin, "access-control-request-method": "POST", "access-control-request-headers": "content-type"}
        assert asked("OPTIONS", "/translate", None, wish).status == 200
