"""The page in a real browser: every panel, every way to change a translation, and nothing hostile gets in."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Dialog,
    Locator,
    Page,
    Request,
    expect,
    sync_playwright,
)

from browser import PATIENCE, PAYLOADS, Backend, browser_path, everything, hostile_trace, poisoned, serving
from headway.inspection.trace_page import document
from headway.inspection.trace_request import EVERYTHING, TraceRequest
from headway.serve.plain_page import filled
from headway.tasks.predictors import open_model
from headway.tasks.trace import trace
from model_folders import random_folder
from serving import running
from toy_models import TEXTS, toy_folders

CHROMIUM = browser_path()
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here; `apt install chromium` to test the page"),
    pytest.mark.xdist_group("browser"),
]
PANELS = ("Tokens", "Alignment", "Heads", "Beam", "Inside", "Positions", "Attribution", "Training")
TEXT = "two men sit"

expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def server() -> Iterator[Backend]:
    with serving() as backend:
        yield backend


class Watched:
    """A page, and all that must not happen on it."""

    def __init__(self, context: BrowserContext) -> None:
        self.page = context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.wrong: list[str] = []
        self.hosts: set[str] = set()
        self.page.on("dialog", self.dialog)
        self.page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        self.page.on("console", self.console)
        self.page.on("request", self.request)

    def dialog(self, dialog: Dialog) -> None:
        self.wrong.append("a dialog")
        dialog.dismiss()

    def console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.wrong.append(message.text)

    def request(self, request: Request) -> None:
        self.hosts.add(urlsplit(request.url).netloc)

    def check(self, *hosts: str) -> None:
        assert self.wrong == []
        assert self.hosts <= {"", *hosts}  # files and blank pages have no host


@pytest.fixture
def watched(browser: Browser, server: Backend) -> Iterator[Watched]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light", locale="en")
    server.hostile, server.looked = False, ""
    server.asked.clear()
    watched = Watched(context)
    yield watched
    context.close()
    watched.check(urlsplit(server.url).netloc)


@pytest.fixture
def page(watched: Watched, server: Backend) -> Page:
    """The page with a sentence in it."""
    visit(watched.page, f"{server.url}#q={quote(TEXT)}")
    return watched.page


def visit(page: Page, url: str) -> None:
    page.goto(url)
    expect(page.locator("#result")).not_to_be_empty()
    expect(page.locator(".piece").first).to_be_visible()


def open_panel(page: Page, name: str) -> None:
    page.get_by_role("tab", name=name).click()
    panel = page.locator(f"#panel-{name.lower()}")
    expect(panel).to_be_visible()
    expect(panel.locator(".empty")).to_have_count(0)


def key(page: Page, name: str) -> Locator:
    return page.locator(f'[data-key="{name}"]')


def bodies(server: Backend, path: str) -> list[dict]:
    return [body for address, body in server.asked if address == path]


# ---------------------------------------------------------------- A: translate


def test_translation_follows_the_typing_and_the_text_stays_out_of_addresses(page: Page, server: Backend) -> None:
    page.locator("#q").fill("a dog runs")
    expect(page.locator("#result")).to_have_text("A DOG RUNS")
    expect(page.locator("#status")).to_have_text("Translation: A DOG RUNS")
    expect(page.locator("#detected")).to_contain_text("English")
    assert "q=a+dog+runs" in urlsplit(page.url).fragment
    assert not any("dog" in path for path, _ in server.asked)
    page.locator("#clear").click()
    expect(page.locator("#result")).to_be_empty()


def test_the_languages_can_be_swapped_where_a_model_goes_back(page: Page, server: Backend) -> None:
    page.locator("#swap").click()
    expect(page.locator("#source-language")).to_have_text("German")
    expect(page.locator("#q")).to_have_value(TEXT.upper())
    expect(page.locator("#result")).to_have_text(TEXT.upper())
    assert bodies(server, "/v1/translate")[-1]["model"] == "yot"


def test_a_link_brings_the_text_and_the_panel_back(page: Page, server: Backend) -> None:
    open_panel(page, "Heads")
    address = page.url
    page.goto("about:blank")
    page.goto(address)
    expect(page.locator("#q")).to_have_value(TEXT)
    expect(page.get_by_role("tab", name="Heads")).to_have_attribute("aria-selected", "true")
    expect(page.locator(".tile").first).to_be_visible()


def test_of_several_sentences_one_is_looked_at(page: Page, server: Backend) -> None:
    page.locator("#q").fill("A dog runs.\n\nTwo men sit.")
    expect(page.locator("#result")).to_have_text("A DOG RUNS.\n\nTWO MEN SIT.", use_inner_text=True)
    page.locator("#sentence").get_by_label("2").check()
    expect(page.locator("#sentence .aside")).to_have_text("Two men sit.")
    page.wait_for_function("() => session.trace?.source.text === 'Two men sit.'")
    assert bodies(server, "/v1/translate")[-1]["texts"] == ["A dog runs.", "Two men sit."]


def test_a_text_too_long_to_look_at_is_still_translated(page: Page, watched: Watched) -> None:
    page.locator("#q").fill("dog " * 200)
    expect(page.locator("#result")).to_contain_text("DOG DOG")
    expect(page.locator(".empty.wrong")).to_contain_text("128")
    watched.wrong.clear()  # the browser's own note of the refused request


def test_without_scripts_the_form_translates(browser: Browser) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.set_content(
        filled((files("headway") / "serve" / "page" / "index.html").read_text(), "<b>\n&amp;", "</output><b>")
    )
    assert page.locator("#q").input_value() == "<b>\n&amp;"
    expect(page.locator("#result")).to_have_text("</output><b>")
    expect(page.get_by_role("button", name="Translate", exact=True)).to_be_visible()
    context.close()


def test_a_page_without_its_server_says_so(page: Page, watched: Watched) -> None:
    page.route("**/v1/translate", lambda route: route.abort())
    page.locator("#q").fill("two men")
    expect(page.locator("#result")).to_have_text("the server cannot be reached")
    watched.wrong.clear()  # the browser's own note of the failed request


# ---------------------------------------------------------------- B to E: change the translation


def test_another_piece_can_be_forced(page: Page, server: Backend) -> None:
    second = key(page, "target-1")
    second.hover()
    expect(page.locator(".tokens-card h3")).to_have_text(second.locator(".piece-text").inner_text())
    second.click()
    expect(second).to_have_attribute("aria-pressed", "true")
    other = page.locator(".option:not(.chosen)").first
    told = other.locator(".option-text").inner_text()
    other.click()
    expect(page.locator("#changes")).to_be_visible()
    expect(key(page, "target-1").locator(".piece-text")).to_have_text(told)
    assert len(bodies(server, "/v1/trace")[-1]["prefix"]) == 2
    expect(page.locator(".piece.forced")).to_have_count(2)
    key(page, "undo-all").click()
    expect(page.locator("#changes")).to_be_hidden()


def test_a_source_piece_can_be_dropped_and_replaced(page: Page, server: Backend) -> None:
    key(page, "source-0").click()
    key(page, "edit-drop").click()
    expect(page.locator(".piece.dropped")).to_have_count(1)
    assert bodies(server, "/v1/trace")[-1]["edit"] == [{"pos": 0, "piece": ""}]
    key(page, "edit-text").fill("cat")
    key(page, "edit-text").press("Enter")
    expect(page.locator(".piece.source.changed .piece-text")).to_have_text("cat")
    expect(page.locator(".chip")).to_contain_text("cat")


def test_both_sides_of_the_alignment_light_up_and_the_table_has_its_numbers(page: Page) -> None:
    open_panel(page, "Alignment")
    page.locator("#panel-alignment .heatmap").focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator(".thread-word.on")).not_to_have_count(0)
    readout = page.locator("#panel-alignment .readout").inner_text()
    page.locator("#panel-alignment summary").click()
    expect(page.locator("#panel-alignment tbody td").first).to_be_visible()
    cells = page.locator("#panel-alignment tbody tr").first.locator("td").all_inner_texts()
    assert abs(sum(map(float, cells)) - 1) < 0.005 * len(cells) + 0.02
    assert abs(float(cells[0]) - float(re.findall(r"([\d.]+) %", readout)[0]) / 100) < 0.011
    page.get_by_label("One head").check()
    page.get_by_label("Pieces").check()
    key(page, "Head-2").check()
    expect(page.locator("#panel-alignment .heatmap")).to_be_visible()


def test_a_head_can_be_silenced_and_the_change_is_told(page: Page, server: Backend) -> None:
    open_panel(page, "Heads")
    key(page, "tile-cross-0-0").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator(".head-detail h3")).to_have_text("Cross · layer 2 · head 2")
    page.get_by_label("Silence this head").check()
    expect(page.locator(".tile.silent")).to_have_count(1)
    silenced = {"stack": "decoder", "layer": 1, "kind": "cross", "head": 1}
    assert bodies(server, "/v1/trace")[-1]["ablate"] == [silenced]
    expect(page.locator("#changes .note")).to_contain_text("log-probability")
    page.locator("#q").fill("two men")  # it stays silent for the next text
    page.wait_for_function("() => session.trace?.source.text === 'two men'")
    assert bodies(server, "/v1/trace")[-1]["ablate"] == [silenced]


def test_the_beam_can_be_played_widened_and_branched(page: Page, server: Backend) -> None:
    open_panel(page, "Beam")
    key(page, "Step").fill("1")
    expect(page.locator(".node.later").first).to_be_attached()
    key(page, "play").click()
    expect(page.locator(".tree .later")).to_have_count(0)
    key(page, "Beam").fill("2")
    expect(page.locator(".before figcaption")).to_contain_text("beam of 4")
    expect(page.locator(".plate:not(.before) figcaption")).to_contain_text("Beam of 2")
    key(page, "node-1-1").press("Enter")
    key(page, "beam-show").click()
    expect(page.get_by_role("tab", name="Tokens")).to_have_attribute("aria-selected", "true")
    expect(page.locator(".piece.forced")).to_have_count(2)
    assert bodies(server, "/v1/trace")[-1]["beam_size"] == 2


# ---------------------------------------------------------------- F to I


def test_boxes_of_the_figure_show_their_matrices(page: Page) -> None:
    open_panel(page, "Inside")
    key(page, "box-decoder-feed-forward").press("Enter")
    expect(page.locator(".stages h3")).to_have_text("Feed forward")
    expect(page.locator(".stage")).to_have_count(2)
    key(page, "next").click()
    expect(page.locator(".stages h3")).to_have_text("Add & LayerNorm")
    key(page, "position").select_option("0")
    expect(page.locator(".stages .facts")).to_contain_text("decoder")
    expect(page.locator(".lens")).not_to_have_count(0)


def test_curves_causes_and_waves_are_drawn(page: Page) -> None:
    open_panel(page, "Training")
    expect(page.locator(".chart")).to_have_count(3)
    expect(page.locator(".samples li")).to_have_count(2)
    expect(page.locator(".looked")).to_contain_text("at step 100")
    expect(page.locator(".looked canvas")).to_have_count(1)
    open_panel(page, "Positions")
    key(page, "Width").fill("64")
    expect(page.locator(".waves")).to_have_attribute("aria-label", re.compile("64 features"))
    open_panel(page, "Attribution")
    key(page, "Method-integrated").check()
    expect(page.locator("#panel-attribution")).to_contain_text("Check: these numbers add up")


# ---------------------------------------------------------------- every reader


def test_keys_walk_through_tabs_and_pieces(page: Page) -> None:
    page.get_by_role("tab", name="Tokens").focus()
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("tab", name="Training")).to_be_focused()
    page.keyboard.press("Home")
    expect(page.get_by_role("tab", name="Tokens")).to_be_focused()
    key(page, "target-0").focus()
    page.keyboard.press("ArrowRight")
    expect(key(page, "target-1")).to_be_focused()
    assert page.locator("#panel-tokens .pieces .piece[tabindex='0']").count() == 2  # one stop a row


def test_colours_follow_the_system_and_the_switch(page: Page) -> None:
    def paper() -> str:
        return page.evaluate("getComputedStyle(document.body).backgroundColor")

    day = paper()
    page.emulate_media(color_scheme="dark")
    night = paper()
    assert day != night
    page.locator("#theme").click()
    assert paper() == day
    page.reload()
    assert paper() == day


def test_no_panel_is_wider_than_a_phone(page: Page) -> None:
    for name in PANELS:
        open_panel(page, name)
        page.set_viewport_size({"width": 390, "height": 800})
        page.wait_for_function("() => document.documentElement.scrollWidth <= 390")
        page.set_viewport_size({"width": 1280, "height": 900})


def test_scripts_from_right_to_left_run_that_way(page: Page) -> None:
    page.locator("#q").fill("كلب يجري")
    page.wait_for_function("() => session.trace?.source.text === 'كلب يجري'")
    assert page.evaluate("getComputedStyle(document.querySelector('#q')).direction") == "rtl"
    expect(page.locator(".pieces").first).to_have_attribute("dir", "rtl")


# ---------------------------------------------------------------- saved pages


def saved(tmp_path: Path, trace: dict) -> str:
    file = tmp_path / "page.html"
    file.write_text(document(trace), encoding="utf-8")
    return file.as_uri()


def test_a_saved_page_shows_all_and_asks_nobody(watched: Watched, tmp_path: Path) -> None:
    page = watched.page
    visit(page, saved(tmp_path, everything(TEXT)))
    for name in PANELS:
        open_panel(page, name)
    open_panel(page, "Heads")
    expect(page.get_by_label("Silence this head")).to_be_disabled()
    watched.check()


def test_long_texts_are_drawn_as_they_come_into_sight(watched: Watched, tmp_path: Path) -> None:
    trace = everything(TEXT)
    piece = trace["target"]["pieces"][0]
    trace["target"]["pieces"] = [{**piece, "word": number} for number in range(1500)]
    page = watched.page
    visit(page, saved(tmp_path, trace))
    assert page.locator("[data-key^=target-]").count() < 1500
    first = page.locator("[data-key^=target-]").count()
    page.locator(f"[data-key=target-{first - 1}]").scroll_into_view_if_needed()
    page.wait_for_function("(first) => document.querySelectorAll('[data-key^=target-]').length > first", arg=first)


# ---------------------------------------------------------------- hostile text


def test_hostile_models_tokens_and_traces_stay_text(watched: Watched, server: Backend) -> None:
    server.hostile = True
    page = watched.page
    visit(page, f"{server.url}#q={quote(TEXT)}")
    assert page.locator("#model option").count() == 2 + len(PAYLOADS)
    for name in PANELS:
        open_panel(page, name)
        for summary in page.locator("details:not([open]) > summary:visible").all():
            summary.click()
    assert_only_ours(page)
    assert "<img src=x onerror=alert(1)>" in page.locator("body").inner_text()


def test_hostile_texts_and_fragments_stay_text(page: Page, server: Backend) -> None:
    server.looked = TEXT  # quick to look at
    for payload in PAYLOADS:
        page.evaluate(
            "(text) => { location.hash = `q=${encodeURIComponent(text)}&panel=${encodeURIComponent(text)}`; }", payload
        )
        expect(page.locator("#result")).to_have_text(payload.upper(), use_inner_text=False)
        expect(page.locator("#q")).to_have_value(payload)
    assert_only_ours(page)


def test_a_hostile_saved_page_runs_only_our_scripts(watched: Watched, tmp_path: Path) -> None:
    trace = hostile_trace()
    trace["model"]["name"] = PAYLOADS[5]
    page = watched.page
    visit(page, saved(tmp_path, trace))
    for name in PANELS:
        open_panel(page, name)
    assert_only_ours(page)
    watched.check()


def assert_only_ours(page: Page) -> None:
    """No element that anybody but us could have made."""
    assert page.locator("img, iframe, object, embed, base, body script[src], a[href^='javascript']").count() == 0
    assert page.locator("[onerror], [onload], [onfocus], [ontoggle]").count() == 0


# ---------------------------------------------------------------- the real server


def test_the_real_server_and_the_page_understand_each_other(browser: Browser, tmp_path: Path) -> None:
    folder = random_folder(tmp_path / "toy-en-de")
    with running(folder, "--spares", 0) as real:
        context = browser.new_context()
        watched = Watched(context)
        page = watched.page
        answer = page.goto(real.url)
        assert answer is not None and "default-src 'self'" in answer.headers["content-security-policy"]
        page.locator("#q").fill(TEXT)
        for name in PANELS[:-1]:
            page.get_by_role("tab", name=name).click()
            page.wait_for_function("(parts) => parts.every((part) => hasPart(session.trace, part))", arg=parts(name))
            expect(page.locator(f"#panel-{name.lower()} .empty")).to_have_count(0)
        open_panel(page, "Heads")
        key(page, "silence-layer").click()
        expect(page.locator("#changes .versus")).to_be_visible()
        context.close()
        watched.check(urlsplit(real.url).netloc)
        plain = browser.new_context(java_script_enabled=False)
        page = plain.new_page()
        page.goto(real.url)
        page.locator("#q").fill(TEXT)
        page.get_by_role("button", name="Translate", exact=True).click()
        expect(page.locator("#result")).not_to_be_empty()
        expect(page.locator("#q")).to_have_value(TEXT)
        plain.close()


def parts(name: str) -> list[str]:
    return {"Alignment": ["attention"], "Beam": ["beam"], "Inside": ["inside", "lens"]}.get(name, [])


# ---------------------------------------------------------------- other tasks


def test_models_that_do_not_translate_have_panels_of_their_own(browser: Browser, tmp_path: Path) -> None:
    wanted = {
        "tagger": (["Labels", "Attention", "Heads", "Training"], "Labels"),
        "classifier": (["Classes", "Attention", "Heads", "Training"], "Class"),
        "writer": (["Tokens", "Attention", "Heads", "Training"], "How it could go on"),
    }
    with running(*toy_folders(tmp_path, wanted).values(), "--spares", 0) as real:
        context = browser.new_context(viewport={"width": 390, "height": 800})
        watched = Watched(context)
        page = watched.page
        page.goto(real.url)
        for name, (panels, result) in wanted.items():
            page.locator("#model").select_option(f"{name} 0")
            page.locator("#q").fill(TEXTS[name])
            expect(page.locator("#target-language")).to_have_text(result)
            assert page.locator("#tabs [role=tab]:visible").all_inner_texts() == panels
            for panel in panels[:-1]:
                page.get_by_role("tab", name=panel).click()
                page.wait_for_function(
                    "(text) => session.trace?.source.text === text && !session.busy", arg=TEXTS[name]
                )
                expect(page.locator(f"#panel-{panel.lower()} .empty")).to_have_count(0)
                assert page.evaluate("document.documentElement.scrollWidth") <= 390
            key(page, "silence-layer").click()
            expect(page.locator("#changes .versus")).to_be_visible()
        context.close()
        watched.check(urlsplit(real.url).netloc)


@pytest.mark.parametrize("name", ["tagger", "classifier", "rememberer"])
def test_saved_pages_of_other_tasks_stay_text(watched: Watched, tmp_path: Path, name: str) -> None:
    found = trace(open_model(toy_folders(tmp_path, [name])[name], "cpu"), TraceRequest(TEXTS[name], include=EVERYTHING))
    page = watched.page
    for shown in (found, poisoned(found, itertools.cycle(PAYLOADS))):
        page.goto(saved(tmp_path, shown))
        for tab in page.locator("#tabs [role=tab]:visible").all():
            tab.click()
        assert_only_ours(page)
    watched.check()
