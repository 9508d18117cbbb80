"""HTML to sections of plain text: headings part them, paragraphs stay apart, everything invisible goes.

Tags are read one after the other and no tree is built, so the work is linear in the page, however deep it nests.
"""

from __future__ import annotations

import html as entities
from dataclasses import dataclass

from actors.retrieval.html import INLINE_TAGS, scan_html

_HEADINGS = frozenset({"h2", "h3", "h4"})


@dataclass(frozen=True, slots=True)
class HtmlSection:
    """A section as the page has it."""

    title: str
    text: str
    child_id: str = ""
    url: str = ""


def split_html_sections(html: str) -> list[HtmlSection]:
    """Split a page at its headings; a page without text has no sections.

    Cost:
        0.1 ms for an article of 500 words; linear
    """
    writer = _Writer()
    for text, tag, is_end in scan_html(html.replace("\x00", " ")):
        if text:
            writer.write(text)
        elif tag in _HEADINGS:
            writer.heading(not is_end)
        elif tag not in INLINE_TAGS:
            writer.end_block()
    return writer.parts()


class _Writer:
    """Collects blocks under headings."""

    def __init__(self) -> None:
        self._parts: list[tuple[str, list[str]]] = [("", [])]
        self._line: list[str] = []
        self._in_heading = False

    def write(self, text: str) -> None:
        self._line.append(text)

    def end_block(self) -> None:
        if self._in_heading:
            self._line.append(" ")
            return
        if line := self._taken():
            self._parts[-1][1].append(line)

    def heading(self, begins: bool) -> None:
        if begins:
            self._in_heading = False
            self.end_block()
        elif self._in_heading:
            self._parts.append((self._taken(), []))
        self._in_heading = begins

    def parts(self) -> list[HtmlSection]:
        self._in_heading = False
        self.end_block()
        return [HtmlSection(title, "\n\n".join(blocks)) for title, blocks in self._parts if blocks]

    def _taken(self) -> str:
        line = " ".join(entities.unescape("".join(self._line)).split())
        self._line.clear()
        return line
