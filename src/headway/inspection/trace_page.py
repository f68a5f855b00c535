"""A trace as a web page in one file: the live page's own files put inside, and every request forbidden."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from typing import Any

from headway.inspection.page_files import page_files
from headway.reports.html import Html, data, tag

SHEET = re.compile(r'<link\b[^>]*\brel="stylesheet"[^>]*\bhref="(?:page/)?([\w.-]+)"[^>]*>')
SCRIPT = re.compile(r'<script\b[^>]*\bsrc="(?:page/)?([\w.-]+)"[^>]*>\s*</script>')
OUTSIDE = re.compile(r"<link\b[^>]*>")  # icons and the like: nothing to fetch in a file
HEAD, END = re.compile(r'<meta charset="[^"]*">'), re.compile(r"</body>")


def document(trace: dict[str, Any]) -> str:
    """Scripts ran deferred in the page; here they stand at the end of the body, in the same order."""
    assets = {name: data.decode() for name, data in page_files().items()}
    text = assets["index.html"]
    codes = [f"\n{assets[name]}\n" for name in SCRIPT.findall(text)]
    text = SCRIPT.sub("", text)
    text = SHEET.sub(lambda found: tag("style", Html(assets[found[1]])), text)
    text = OUTSIDE.sub("", text)
    text = HEAD.sub(lambda found: f"{found[0]}\n{policy(codes)}", text, count=1)
    ending = "\n".join([data("trace", trace), *(tag("script", Html(code)) for code in codes)])
    return END.sub(lambda found: f"{ending}\n{found[0]}", text, count=1)


def policy(codes: Sequence[str]) -> Html:
    """No request at all, and no script but these."""
    known = " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()}'" for code in codes)
    nowhere = "default-src 'none'; base-uri 'none'; form-action 'none'"
    rules = f"{nowhere}; style-src 'unsafe-inline'; script-src {known}; img-src data:"
    return tag("meta", http_equiv="Content-Security-Policy", content=rules)
