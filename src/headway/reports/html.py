"""Single-file HTML pages: no network access, light and dark mode, and all text escaped unless it is Html.

Ours rather than a template engine: a few functions, and escaping that cannot be forgotten.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Sequence
from typing import Any


class Html(str):
    """A string of HTML, which is not escaped again."""


VOID = ("br", "hr", "input", "meta")

# The palette of Okabe and Ito, safe for colour-blind readers, without yellow, which is too pale on white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")


def join(*children: object) -> Html:
    """Return the children concatenated; what is not Html is escaped, and None is skipped."""
    return Html(
        "".join(
            child if isinstance(child, Html) else html.escape(str(child)) for child in children if child is not None
        )
    )


def tag(name: str, /, *children: object, **attributes: object) -> Html:
    """Return an element. `class_="x"` and `aria_label="y"` become class and aria-label; None omits an attribute."""
    words = [name]
    for key, value in attributes.items():
        if value is not None and value is not False:
            label = key.rstrip("_").replace("_", "-")
            words.append(label if value is True else f'{label}="{html.escape(str(value))}"')
    opening = f"<{' '.join(words)}>"
    return Html(opening if name in VOID else f"{opening}{join(*children)}</{name}>")


def table(head: Sequence[str], rows: Iterable[Sequence[object]], caption: str, words: Sequence[str] = ()) -> Html:
    """Return a table whose first column is the row header; columns in `words` are text, the others numbers."""
    kinds = [None if title in words else "number" for title in head]
    titles = [tag("th", title, scope="col", class_=kind) for title, kind in zip(head, kinds, strict=True)]
    body = [
        tag(
            "tr",
            tag("th", row[0], scope="row"),
            *(tag("td", cell, class_=kind) for cell, kind in zip(row[1:], kinds[1:], strict=True)),
        )
        for row in rows
    ]
    whole = tag("table", tag("caption", caption), tag("thead", tag("tr", *titles)), tag("tbody", *body))
    return tag("div", whole, class_="scroll", tabindex="0", role="region", aria_label=caption)


def data(name: str, value: Any) -> Html:
    """Return a script element with JSON data, escaped so that it cannot end the element."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    safe = text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    return tag("script", Html(safe), type="application/json", id=name)


def page(title: str, *body: object, script: str = "") -> str:
    """Return a whole document. Its content security policy forbids all requests, so that it stays private."""
    policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", title),
        tag("style", Html(STYLE)),
    )
    scripts = tag("script", Html(script)) if script else None
    whole = tag("html", head, tag("body", tag("main", tag("h1", title), *body), scripts), lang="en")
    return f"<!doctype html>\n{whole}\n"


STYLE = """
:root { color-scheme: light dark;
  --paper: #fdfdfc; --card: #fff; --ink: #1c1f23; --soft: #5a626c; --line: #d9dce1;
  --good: #00614a; --good-back: #d9f2ea; --bad: #8f3b00; --bad-back: #fde8da; --focus: #0072B2;
  --c0: #0072B2; --c1: #D55E00; --c2: #009E73; --c3: #CC79A7; --c4: #E69F00; --c5: #56B4E9; }
@media (prefers-color-scheme: dark) { :root {
  --paper: #14171b; --card: #1b1f25; --ink: #e8eaed; --soft: #a3abb6; --line: #363d47;
  --good: #7fdcbf; --good-back: #0f3b30; --bad: #ffb285; --bad-back: #46230c; --focus: #56B4E9;
  --c0: #3d9bdc; --c1: #f0752a; --c2: #1fbf93; --c3: #dd92bd; --c4: #f0b429; --c5: #7cc8f2; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", "Noto Sans", sans-serif; }
main { max-width: 72rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .25rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2.25rem 0 .5rem; }
p { margin: .25rem 0 .75rem; } .soft, caption, summary { color: var(--soft); }
code { font: .85em ui-monospace, "DejaVu Sans Mono", monospace; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; margin: 1rem 0; } :focus-visible { outline: 2px solid var(--focus); outline-offset: 2px; }
table { border-collapse: collapse; min-width: 24rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; padding: 0 0 .35rem; font-size: .9rem; }
th, td { text-align: left; padding: .3rem .9rem .3rem 0; border-bottom: 1px solid var(--line); font-weight: 400; }
thead th { color: var(--soft); font-size: .85rem; } tbody th { font-weight: 600; }
.number { text-align: right; white-space: nowrap; } em { color: var(--soft); }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(26rem, 100%), 1fr)); gap: 1rem; }
figure { margin: 0; padding: .75rem; background: var(--card); border: 1px solid var(--line); border-radius: 8px; }
figcaption { font-size: .9rem; font-weight: 600; margin-bottom: .25rem; }
svg { display: block; width: 100%; height: auto; } svg text { fill: var(--soft); font-size: 12px; }
svg .strong { fill: var(--ink); } svg .grid { stroke: var(--line); }
.key { display: flex; flex-wrap: wrap; gap: .25rem 1rem; font-size: .85rem; list-style: none;
  padding: 0; margin: 0 0 .25rem; }
.key svg { width: 1.75rem; height: .7rem; display: inline-block; margin-right: .4rem; vertical-align: baseline; }
.find { font: inherit; width: 100%; max-width: 28rem; padding: .4rem .6rem; color: inherit; background: var(--card);
  border: 1px solid var(--line); border-radius: 6px; }
.sentences { list-style: none; padding: 0; margin: .75rem 0 0; }
.sentences > li { padding: .6rem .75rem; margin: 0 0 .6rem; background: var(--card); border: 1px solid var(--line);
  border-radius: 8px; content-visibility: auto; contain-intrinsic-size: auto 9rem; }
.sentences [hidden], li[hidden] { display: none; }
dl { display: grid; grid-template-columns: 6.5rem 1fr; gap: .1rem .75rem; margin: 0; }
dt { color: var(--soft); font-size: .85rem; padding-top: .12rem; overflow-wrap: anywhere; }
dd { margin: 0; overflow-wrap: anywhere; }
.about { font-size: .85rem; color: var(--soft); font-variant-numeric: tabular-nums; margin: 0 0 .25rem; }
ins, del { text-decoration-thickness: 2px; text-underline-offset: 3px; border-radius: 3px; padding: 0 .1em; }
ins { color: var(--good); background: var(--good-back); text-decoration-line: underline; }
del { color: var(--bad); background: var(--bad-back); text-decoration: underline wavy 1px; }
@media (max-width: 36rem) { dl { grid-template-columns: 1fr; } dd { margin-bottom: .3rem; } }
@media print { .find { display: none; } .sentences > li { content-visibility: visible; break-inside: avoid; } }
"""

FIND = """
const find = document.querySelector(".find"), shown = document.querySelector("#shown");
find?.addEventListener("input", () => {
  const wanted = find.value.toLocaleLowerCase();
  let count = 0;
  for (const item of document.querySelectorAll(".sentences > li")) {
    item.hidden = !item.textContent.toLocaleLowerCase().includes(wanted);
    count += !item.hidden;
  }
  shown.textContent = wanted ? `${count} with this` : "";
});
"""


def find_box() -> Html:
    """Return a search box that filters the sentences of a page; the page needs the script `FIND`."""
    box = tag(
        "input", type="search", class_="find", placeholder="Find in the sentences", aria_label="Find in the sentences"
    )
    return tag("p", box, " ", tag("span", id="shown", class_="soft", role="status"))
