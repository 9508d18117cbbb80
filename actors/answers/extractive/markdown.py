"""Render a composed answer as markdown; text of a passage can't become a link, an image, markup or a citation."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from urllib.parse import quote

from actors.answers.extractive.answer_composer import ComposedAnswer
from actors.answers.extractive.entity_recognition import find_name_spans
from actors.answers.extractive.injection_filter import clean_text
from actors.archive.messages import Snippet
from actors.language.analysis import STOP_WORDS
from actors.language.language_data import FALLBACK_LANGUAGE, load_languages

PLACEHOLDER = "%s"
"Placeholder of the term in the template."
MAX_TERMS = 8

_TERM = re.compile(r"[\w’'][\w’' .&-]*[\w’']")

_CALENDAR = load_languages()[FALLBACK_LANGUAGE].calendar
_DATES = frozenset((*_CALENDAR.months, *_CALENDAR.weekdays))


class TermLinks:
    """The links of one answer; `template` is an address with one `%s`."""

    def __init__(self, template: str) -> None:
        self._template = template
        self._linked: set[str] = set()

    def select_terms(self, text: str) -> list[tuple[str, str]]:
        """Return the terms of a sentence that are not linked yet, each with its address."""
        results = []
        for start, end in find_name_spans(text):
            term = _normalize_name(text[start:end], at_start=start == 0)
            if len(self._linked) >= MAX_TERMS:
                break
            if term and term.casefold() not in self._linked:
                self._linked.add(term.casefold())
                results.append((term, self._template.replace(PLACEHOLDER, quote(term, safe=""))))
        return results


def _normalize_name(name: str, *, at_start: bool) -> str:
    """Remove the articles of a name; empty when it may be an ordinary word at the start of a sentence."""
    words = name.split()
    kept = words[next((at for at, word in enumerate(words) if word.lower() not in STOP_WORDS["en"]), 0) :]
    is_name = len(kept) > 1 or not at_start or len(kept) < len(words)
    term = " ".join(kept)
    if term.lower() in _DATES:
        return ""
    return term if is_name and len(term) > 2 and _TERM.fullmatch(term) and not term.isdigit() else ""


_SPECIAL = re.compile(r"([\\`*_\[\]~|])")
_LINE_START = re.compile(r"^(\s*)(#{1,6}(?=\s)|[-+>](?=\s)|\d{1,9}(?=[.)]\s)|={2,}|-{2,})")
_WEB = re.compile(r"https?://[^\s/?#]+\.?[^\s]*\Z", re.IGNORECASE)
_IN_ADDRESS = str.maketrans(
    {character: f"%{ord(character):02X}" for character in " ()<>[]\\\"'`{}|^\t\r\n*_~"}
)


def render_markdown(
    composed: ComposedAnswer,
    snippets: Sequence[Snippet],
    *,
    cite_start: str = "[",
    cite_end: str = "]",
    cite_link: bool = False,
    urls: Mapping[str, str] | None = None,
    term_link: str = "",
) -> str:
    """Return an answer with its citations, numbered by `list_cited_products`; empty when it was refused.

    `urls` maps product ids to addresses of articles; without an entry, the passage's address is used. With `term_link`,
    an address with `%s`, each name becomes a link once.
    """
    links = TermLinks(term_link) if term_link else None
    numbers = {product_id: at for at, product_id in enumerate(list_cited_products(composed, snippets), 1)}
    parts = []
    for cited in composed.sentences:
        snippet = snippets[cited.snippet]
        text = escape_text(cited.text, cite_start, cite_end)
        if links is not None:
            terms = links.select_terms(clean_text(cited.text))
            text = _link_terms(
                text, {escape_text(term, cite_start, cite_end): address for term, address in terms}
            )
        url = (urls or {}).get(snippet.product_id, snippet.url)
        mark = render_citation(numbers[snippet.product_id], cite_start, cite_end, url if cite_link else "")
        parts.append(_append_mark(text, mark))
    return " ".join(parts)


def render_citation(number: int, cite_start: str = "[", cite_end: str = "]", url: str = "") -> str:
    """Return a citation; with the address of a web page it is a link, with any other it is not."""
    mark = f"{cite_start}{number}{cite_end}"
    # Only http and https: other schemes could run script in a page that shows the answer.
    if not _WEB.match(url.strip()):
        return mark
    return f"[{mark}]({url.strip().translate(_IN_ADDRESS)})"


def list_cited_products(composed: ComposedAnswer, snippets: Sequence[Snippet]) -> tuple[str, ...]:
    """Return the product ids that an answer cites, in the order of their numbers."""
    return tuple(dict.fromkeys(snippets[cited.snippet].product_id for cited in composed.sentences))


def escape_text(text: str, cite_start: str = "[", cite_end: str = "]") -> str:
    """Escape the markdown of a sentence, and remove citation marks that it contains."""
    plain = clean_text(text)
    if cite_start and cite_end and (cite_start, cite_end) != ("(", ")"):
        plain = _strip_citations(plain, cite_start, cite_end)
    # & first, or the escapes of < and > would be escaped again.
    plain = _SPECIAL.sub(r"\\\1", plain.replace("&", "&amp;"))
    plain = plain.replace("<", "&lt;").replace(">", "&gt;").replace("&amp; ", "& ")
    return _LINE_START.sub(_escape_start, plain)


def _link_terms(text: str, addresses: Mapping[str, str]) -> str:
    """Link the first occurrence of each term; a term inside another link stays plain."""
    taken: list[tuple[int, int, str]] = []
    # The longest first, so that a name is not linked inside of a longer one.
    for term in sorted(addresses, key=len, reverse=True):
        start = text.find(term)
        end = start + len(term)
        whole = start >= 0 and not _is_letter(text[start - 1 : start]) and not _is_letter(text[end : end + 1])
        if whole and all(end <= first or last <= start for first, last, _ in taken):
            taken.append((start, end, term))
    # From the end, so that earlier places stay right.
    for start, end, term in sorted(taken, reverse=True):
        address = addresses[term].translate(_IN_ADDRESS)
        text = f"{text[:start]}[{term}]({address}){text[end:]}"
    return text


def _is_letter(character: str) -> bool:
    return character.isalnum() or (character != "" and character in "_\\")


def _strip_citations(text: str, cite_start: str, cite_end: str) -> str:
    """Remove text that looks like a citation: marks with only a number between."""
    pieces = text.split(cite_start)
    kept = [pieces[0]]
    for piece in pieces[1:]:
        number, mark, rest = piece.partition(cite_end)
        if mark and number.strip().isdigit() and len(number) <= _LONGEST_NUMBER:
            kept[-1] = kept[-1].rstrip()
            kept.append(rest)
        else:
            kept.append(cite_start + piece)
    return "".join(kept)


_LONGEST_NUMBER = 5


def _escape_start(match: re.Match[str]) -> str:
    mark = match[2]
    return f"{match[1]}{mark}\\" if mark[0].isdigit() else f"{match[1]}\\{mark}"


def _append_mark(text: str, mark: str) -> str:
    """Add a mark before the full stop, as in print, or behind any other end of a sentence."""
    if text.endswith(".") and not text.endswith(".."):
        return f"{text[:-1]} {mark}."
    return f"{text} {mark}"
