"""Remove text that gives orders to a language model, and characters that are invisible.

Articles are data. A sentence that gives orders to the writer of the answer is never shown, whatever the
question is. Losing a quotation costs little, and passing on an order costs trust.
"""

from __future__ import annotations

import re
import unicodedata

from actors.language.language_data import any_of, collect_words, compile_pattern


def _compile_instructions() -> re.Pattern[str]:
    parts = {
        "{writer}": any_of(collect_words(lambda data: data.injection.writers)),
        "{before_rules}": rf"(?:{any_of(collect_words(lambda data: data.injection.before_rules))}\s{{1,3}}){{0,6}}",
        "{rules}": any_of(collect_words(lambda data: data.injection.rules)),
    }
    at_words = collect_words(lambda data: data.injection.at_words)
    anywhere = collect_words(lambda data: data.injection.anywhere)
    text = "|".join((rf"\b{any_of(at_words)}", *anywhere))
    for name, part in parts.items():
        text = text.replace(name, part)
    return compile_pattern(text)


_INSTRUCTIONS = _compile_instructions()

_MARKED_LINK = re.compile(
    r"!?\[([^\[\]]{0,300})\]\((?:[^()\s]|\([^()\s]{0,80}\)){0,600}(?:\s{1,3}[\"'][^\"']{0,200}[\"'])?\)"
)
_REFERENCE = re.compile(r"!?\[([^\[\]]{1,300})\]\[[^\[\]]{0,100}\]")
_NOTE = re.compile(r"\s?\[(?:\d{1,3}(?:\s?[,–-]\s?\d{1,3})*|[a-z]|note \d+|citation needed|edit)\]")
_ADDRESS = re.compile(
    r"<?\b(?:[a-z][a-z0-9+.-]{1,12}://|www\.|mailto:|javascript:|data:|tel:)[^\s<>\"'“”]*>?", re.IGNORECASE
)
_MAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,6}")
_TAG = re.compile(r"<[/!?a-zA-Z][^<>]{0,500}>")
_LEFT_OUT = "…"


def has_instructions(text: str) -> bool:
    """Return whether a sentence addresses a language model or hides content that is not text.

    Cost:
        20 us for a sentence
    """
    plain = strip_invisible(text)
    # In a link too, whose text and address could split an order.
    if _INSTRUCTIONS.search(plain) or ("](" in plain and _INSTRUCTIONS.search(clean_text(plain))):
        return True
    return has_hidden_characters(text) and _INSTRUCTIONS.search(_decode_tags(text)) is not None


def has_hidden_characters(text: str) -> bool:
    """Return whether a text has invisible characters: tags, directions, spaces of no width."""
    return not text.isascii() and any(_is_hidden(character) for character in text)


def strip_invisible(text: str) -> str:
    """Remove invisible characters and join the lines."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", "".join(c for c in text if not _is_hidden(c)))
    return " ".join(text.replace("\x00", " ").split())


def clean_text(text: str) -> str:
    """Return the plain text of a sentence: no markup, links, addresses, footnote marks or invisible characters."""
    # Invisible signs first, since they could split the marks that are looked for below.
    text = strip_invisible(text)
    text = _TAG.sub("", _strip_comments(text)) if "<" in text else text
    text = _REFERENCE.sub(r"\1", _MARKED_LINK.sub(r"\1", text)) if "[" in text else text
    text = _NOTE.sub("", text) if "[" in text else text
    text = _ADDRESS.sub(_LEFT_OUT, text) if ":" in text or "www." in text.lower() else text
    text = _MAIL.sub(_LEFT_OUT, text) if "@" in text else text
    return " ".join(text.split())


def _strip_comments(text: str) -> str:
    first, *others = text.split("<!--")
    return first + "".join(other.partition("-->")[2] for other in others)


def _is_hidden(character: str) -> bool:
    if character in "\t\n\r\u200c\u200d":  # joiners are spelling in some scripts
        return False
    return (
        unicodedata.category(character) in ("Cc", "Cf", "Co", "Cn", "Cs")
        or 0xFE00 <= ord(character) <= 0xFE0F
    )


def _decode_tags(text: str) -> str:
    """Decode tag characters, which are invisible and spell ASCII."""
    return "".join(chr(ord(c) - 0xE0000) if 0xE0020 <= ord(c) <= 0xE007E else c for c in text)
