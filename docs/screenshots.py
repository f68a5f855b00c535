"""Pictures of the page for the documentation, taken with a model that was really trained.

python docs/screenshots.py MODEL_FOLDER          (writes docs/pictures/page-*.png)
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import Page, sync_playwright

PICTURES = Path(__file__).parent / "pictures"
SENTENCE = "Two young men are playing guitar in front of a crowd."
LARGEST = 200_000  # bytes of a picture
WIDTH = 1280


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The address of a server with this model."""
    command = [sys.executable, "-m", "headway", "serve", str(folder), "--port", "0", "--spares", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            yield next(json.loads(line)["address"] for line in process.stderr if '"listening"' in line)
        finally:
            process.terminate()
            process.stderr.read()


def hold_a_piece(page: Page) -> None:
    page.locator(".piece.shown").click()


def follow_a_word(page: Page) -> None:
    page.locator(".thread-word").nth(4).hover()


def silence_a_head(page: Page) -> None:
    page.locator(".tile").nth(9).click()
    page.get_by_label("Silence this head").check()
    page.locator("#changes .versus").wait_for()


def choose_a_node(page: Page) -> None:
    page.locator(".node.best").nth(3).click()


def nothing(page: Page) -> None:
    """As it comes."""


@dataclass(frozen=True)
class Shot:
    """One picture."""

    panel: str
    drawn: str  # what is there when the panel is drawn
    act: Callable[[Page], None] = nothing  # done before
    part: str = "#panels"  # of the page that is taken
    sentence: str = SENTENCE


SHOTS = {
    "translate": Shot("tokens", ".piece", hold_a_piece, "body"),
    "alignment": Shot("alignment", ".thread", follow_a_word),
    "heads": Shot("heads", ".tile", silence_a_head, "main"),
    "beam": Shot("beam", ".node", choose_a_node, sentence="A dog runs."),  # short, to fit the width
    "inside": Shot("inside", ".stage"),
    "training": Shot("training", ".chart"),
}


def take(page: Page, url: str, name: str) -> Path:
    shot = SHOTS[name]
    page.goto("about:blank")
    page.goto(f"{url}/#q={quote(shot.sentence)}&panel={shot.panel}")
    page.locator(shot.drawn).first.wait_for(state="attached")
    shot.act(page)
    page.wait_for_timeout(400)  # transitions
    path = PICTURES / f"page-{name}.png"
    page.locator(shot.part).screenshot(path=path, animations="disabled")
    if path.stat().st_size > LARGEST:
        raise SystemExit(f"{path} has {path.stat().st_size:,} bytes; at most {LARGEST:,} are wanted")
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="a trained model folder")
    parser.add_argument("--only", choices=sorted(SHOTS), nargs="*", default=sorted(SHOTS), help="some of the pictures")
    arguments = parser.parse_args()
    with serving(arguments.folder) as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": 900}, color_scheme="light")
        for name in arguments.only:
            path = take(page, url.rstrip("/"), name)
            print(f"{path.name}: {path.stat().st_size:,} bytes")
        browser.close()


if __name__ == "__main__":
    main()
