"""Write cli.md and reference.md from the code, check all links, and make a site of all pages: python docs/build.py"""

from __future__ import annotations

import base64
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import rooms
from markdown_it import MarkdownIt
from markdown_it.token import Token
from reference import cli_page, reference_page

from headway.reports.html import Html, join, page, tag

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
PARSER = MarkdownIt("commonmark").enable("table")
ORDER = ("README", "index", "tour", "cli", "reference")  # then the others, by name

STYLE = """
nav, .soft { font-size: .9rem; } img { max-width: 100%; } main { max-width: 60rem; } h3, h4 { margin: 1.5rem 0 .25rem; }
pre { overflow-x: auto; padding: .75rem; background: var(--card); border: 1px solid var(--line); border-radius: 8px; }
"""

# ---------------------------------------------------------------- links


def pages() -> list[Path]:
    return [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]


def slug(title: str) -> str:
    """As GitHub names the places that headings make."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def headings(tokens: list[Token]) -> Iterator[tuple[Token, str]]:
    for opening, inline in zip(tokens, tokens[1:], strict=False):
        if opening.type == "heading_open":
            yield opening, "".join(child.content for child in inline.children or [])


def links(tokens: list[Token]) -> Iterator[tuple[Token, str]]:
    for token in tokens:
        for child in token.children or []:
            name = {"link_open": "href", "image": "src"}.get(child.type)
            if name:
                yield child, str(child.attrs[name])


def broken_links() -> list[str]:
    """Links inside the project that lead nowhere."""
    faults = []
    for path in pages():
        for _, link in links(PARSER.parse(path.read_text(encoding="utf-8"))):
            file, _, place = link.partition("#")
            if re.match(r"[a-z]+:", link):
                continue
            target = (path.parent / file).resolve() if file else path
            if not target.exists():
                faults.append(f"{path.relative_to(ROOT)}: {link} does not exist")
            elif place and target.suffix == ".md" and place not in places(target):
                faults.append(f"{path.relative_to(ROOT)}: {link} names no heading")
    return faults


def places(path: Path) -> set[str]:
    return {slug(title) for _, title in headings(PARSER.parse(path.read_text(encoding="utf-8")))}


# ---------------------------------------------------------------- site


def site(folder: Path) -> int:
    """All pages as HTML that needs no network, beside one another in one folder; how many."""
    folder.mkdir(exist_ok=True)
    names = {path.resolve(): f"{path.stem.lower()}.html" for path in ordered()}
    titles = {path: title_of(path) for path in names}
    menu = tag("nav", *(join(tag("a", titles[path], href=name), " · ") for path, name in names.items()))
    for path, name in names.items():
        body = Html(rendered(path, names))
        (folder / name).write_text(page(titles[path], tag("style", Html(STYLE)), menu, body), encoding="utf-8")
    return len(names)


def ordered() -> list[Path]:
    return sorted(pages(), key=lambda path: (ORDER.index(path.stem) if path.stem in ORDER else len(ORDER), path.stem))


def title_of(path: Path) -> str:
    return next((title for _, title in headings(PARSER.parse(path.read_text(encoding="utf-8")))), path.stem)


def rendered(path: Path, names: dict[Path, str]) -> str:
    tokens = PARSER.parse(path.read_text(encoding="utf-8"))
    for opening, title in headings(tokens):
        opening.attrs["id"] = slug(title)
    for token, link in links(tokens):
        file, _, place = link.partition("#")
        target = (path.parent / file).resolve()
        if token.type == "image" and target.is_file():
            token.attrs["src"] = "data:image/png;base64," + base64.b64encode(target.read_bytes()).decode()
        elif target in names:
            token.attrs["href"] = names[target] + ("#" + place if place else "")
    body = PARSER.renderer.render(tokens, PARSER.options, {})
    return re.sub(r"<h1.*?</h1>\n?", "", body, count=1)  # the page has its own


# ---------------------------------------------------------------- all of it

WRITTEN: dict[str, Callable[[], str]] = {"cli.md": cli_page, "reference.md": reference_page}


def complete_index() -> None:
    """Pages that the index does not lead to yet are listed at its end."""
    path = DOCS / "index.md"
    kept, opening, _ = path.read_text(encoding="utf-8").partition("<!-- others")
    others = [page for page in sorted(DOCS.glob("*.md")) if page != path and f"({page.name})" not in kept]
    lines = [f"{opening}: written by docs/build.py -->", *(f"- [{title_of(page)}]({page.name})" for page in others)]
    path.write_text(kept + "\n".join([*lines, "<!-- end -->"]) + "\n", encoding="utf-8")


ROOMS: dict[Path, Callable[[], str]] = {
    ROOT / "README.md": rooms.tree,
    ROOT / "CONTRIBUTING.md": rooms.tree,
    DOCS / "architecture.md": rooms.table,
}


def complete_rooms() -> None:
    """Write the rooms of the package between the two marks of each page that shows them."""
    for path, write in ROOMS.items():
        before, opening, rest = path.read_text(encoding="utf-8").partition("<!-- rooms: written by docs/build.py -->")
        _, ending, after = rest.partition("<!-- end of rooms -->")
        if not opening or not ending:
            raise ValueError(f"{path} has no place for the rooms")
        path.write_text(f"{before}{opening}\n\n{write()}\n\n{ending}{after}", encoding="utf-8")


def main() -> int:
    complete_rooms()
    for name, write in WRITTEN.items():
        (DOCS / name).write_text(write(), encoding="utf-8")
        print(f"wrote docs/{name}")
    complete_index()
    faults = broken_links()
    for fault in faults:
        print(fault, file=sys.stderr)
    print(f"wrote {site(ROOT / 'site')} pages into site/")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
