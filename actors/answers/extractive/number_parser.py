"""Parse numbers in digits or in words of several languages, with the unit that they count."""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import MappingProxyType

from actors.language.language_data import collect_words, load_languages

_LANGUAGES = load_languages().values()

_WORDS = MappingProxyType(
    {word: at for data in _LANGUAGES for at, word in enumerate(data.numbers.from_zero) if word != "-"}
    | {word: value for data in _LANGUAGES for word, value in data.numbers.tens.items()}
)

_TIMES = MappingProxyType(
    {word: value for data in _LANGUAGES for word, value in data.numbers.multipliers.items()}
)

_NEVER_ALONE = frozenset(collect_words(lambda data: data.numbers.never_alone))

_ONES = frozenset(collect_words(lambda data: data.numbers.ones))

"Words that mostly are no numbers but pronouns or articles."

_TOKEN = re.compile(r"\d+(?:[.,\u00a0\u202f']\d+)*|[^\W\d_]+(?:-[^\W\d_]+)*|%|[$€£¥°]")

_THOUSANDS = re.compile(r"\d{1,3}(?:[.,\u00a0\u202f']\d{3})+\Z")

_UNITS = MappingProxyType(
    {word: unit for data in _LANGUAGES for unit, words in data.units.items() for word in words}
)


@dataclass(frozen=True, slots=True)
class NumberMention:
    """A number and its unit."""

    value: float
    unit: str
    "A kind of unit; empty for any other counted noun."
    digits: bool
    "Written in digits, so it certainly is a number."


def parse_numbers(text: str) -> list[NumberMention]:
    """Return the numbers of a text, in order; `1,900`, `1.9 thousand` and `nineteen hundred` are one value.

    Cost:
        20 us for a sentence
    """
    tokens = _TOKEN.findall(text.lower())
    results: list[NumberMention] = []
    at = 0
    while at < len(tokens):
        value, digits, after = _parse_number(tokens, at)
        if after == at:
            at += 1
            continue
        # The sign of a currency may stand before its number.
        unit = "money" if at and tokens[at - 1] in "$€£¥" else _find_unit(tokens[after : after + 2])
        # `one` alone is mostly a pronoun; `one hundred` is a number.
        if digits or after - at > 1 or tokens[at] not in _ONES:
            results.append(NumberMention(value, unit, digits))
        at = after
    return results


def is_number_word(word: str) -> bool:
    """Return whether a word is a number, or a part of one."""
    small = word.lower()
    return small in _WORDS or small in _TIMES


def _find_unit(tokens: list[str]) -> str:
    for token in tokens:
        if token[0].isdecimal():
            return ""
        if token in _UNITS:
            return _UNITS[token]
    return ""


def _parse_number(tokens: list[str], at: int) -> tuple[float, bool, int]:
    """Parse the number that begins at a token: its value, whether in digits, and the token behind it."""
    total = part = 0.0
    digits = False
    begin = at
    while at < len(tokens):
        token = tokens[at]
        if token[0].isdecimal():
            if at > begin:
                break
            part = _parse_digits(token)
            digits = True
        elif token in _WORDS:
            # `twenty five` goes on, `five twenty` are two numbers.
            if at > begin and not (part % 100 == 0 or (20 <= part % 100 < 100 and _WORDS[token] < 10)):
                break
            part += _WORDS[token]
        elif "-" in token and all(piece in _WORDS for piece in token.split("-")):
            part += sum(_WORDS[piece] for piece in token.split("-"))
        # A single letter such as `k` multiplies digits only.
        elif token in _TIMES and at > begin and not (len(token) == 1 and not digits):
            times = _TIMES[token]
            # A hundred multiplies the part, a thousand and more close it: two hundred thousand is 200 * 1000.
            if times == 100:
                part = (part or 1) * 100
            else:
                total = total + (part or 1) * times
                part = 0.0
        elif token in _TIMES and len(token) > 3 and token not in _NEVER_ALONE:
            part = float(_TIMES[token])
        else:
            break
        at += 1
    return total + part, digits, at


def _parse_digits(token: str) -> float:
    """Parse digits; a separator of groups of three separates thousands, any other sign is a decimal sign."""
    # 0.125 has three digits behind its sign too; a leading zero makes it a decimal.
    if _THOUSANDS.match(token) and not token.startswith("0"):
        return float(re.sub(r"\D", "", token))
    plain = re.sub(r"[\u00a0\u202f']", "", token)
    head, _, tail = plain.replace(",", ".").rpartition(".")
    return float(f"{head.replace('.', '')}.{tail}") if head else float(tail)
