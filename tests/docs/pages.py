"""The pages of the repository, their links, headings and blocks of code, for the tests of this folder."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "api"),  # those `./run docs` makes
    *sorted((ROOT / "benchmarks").glob("*.md")),
]

_FENCE = re.compile(
    r"^(?:<!-- (?P<note>[^\n]*) -->\n)?(?P<indent> *)```(?P<info>[^\n]*)\n(?P<code>.*?)^ *```$",
    re.MULTILINE | re.DOTALL,
)
_LINK = re.compile(r"(?<!`)\[[^\]\n]*\]\(([^)\s]+)\)")


class Block(NamedTuple):
    """A fenced block of code: its page, the line where its code begins, its language and its text.

    `note` is what an HTML comment in the line before says, such as `not run: it needs two machines`.
    """

    page: Path
    line: int
    language: str
    code: str
    note: str

    @property
    def name(self) -> str:
        """Page and line, as an editor finds them."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> Iterator[Block]:
    """Every fenced block of a page, in order."""
    text = page.read_text(encoding="utf-8")
    for match in _FENCE.finditer(text):
        line = text.count("\n", 0, match.start("code")) + 1
        yield Block(page, line, match["info"].strip(), match["code"], match["note"] or "")


def prose(page: Path) -> str:
    """The text of a page without its blocks of code."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def links(page: Path) -> list[str]:
    """The targets of a page's links and images, as they are written."""
    return _LINK.findall(prose(page))


def anchors(page: Path) -> set[str]:
    """What can follow `#` in a link to this page: its headings, as GitHub and MyST spell them."""
    headings = re.findall(r"^#+ +(.+?) *$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
