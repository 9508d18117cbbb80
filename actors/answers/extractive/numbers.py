"""Numbers as they are written, in digits or in words of several languages, with what they count."""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import MappingProxyType

_SMALL = {
    "en": "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
          "seventeen eighteen nineteen twenty",
    "de": "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn "
          "siebzehn achtzehn neunzehn zwanzig",
    "es": "cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieciséis "
          "diecisiete dieciocho diecinueve veinte",
    "fr": "zéro - deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize dix-sept "
          "dix-huit dix-neuf vingt",
}  # fmt: skip
_TENS = {
    "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90,
    "dreißig": 30, "vierzig": 40, "fünfzig": 50, "sechzig": 60, "siebzig": 70, "achtzig": 80, "neunzig": 90,
    "treinta": 30, "cuarenta": 40, "cincuenta": 50, "sesenta": 60, "setenta": 70, "ochenta": 80, "noventa": 90,
    "trente": 30, "quarante": 40, "cinquante": 50, "soixante": 60,
}  # fmt: skip
_TIMES = {
    "hundred": 100, "thousand": 1_000, "million": 10**6, "millions": 10**6, "billion": 10**9, "billions": 10**9,
    "trillion": 10**12, "m": 10**6, "bn": 10**9, "k": 1_000, "dozen": 12,
    "hundert": 100, "tausend": 1_000, "millionen": 10**6, "milliarde": 10**9, "milliarden": 10**9,
    "cien": 100, "ciento": 100, "mil": 1_000, "millón": 10**6, "millones": 10**6,
    "cent": 100, "mille": 1_000, "milliard": 10**9, "milliards": 10**9,
}  # fmt: skip
_WORDS = MappingProxyType(
    {word: value for text in _SMALL.values() for value, word in enumerate(text.split()) if word != "-"}
    | _TENS
)
_ONES = frozenset(["one", "un", "uno", "una", "eins"])
"Mostly no numbers at all, but somebody or something."
_TOKEN = re.compile(r"\d+(?:[.,\u00a0\u202f']\d+)*|[^\W\d_]+(?:-[^\W\d_]+)*|%|[$€£¥°]")
_THOUSANDS = re.compile(r"\d{1,3}(?:[.,\u00a0\u202f']\d{3})+\Z")
_UNITS = MappingProxyType(
    {
        word: unit
        for unit, words in {
            "share": "% percent per-cent prozent porciento pourcent percentage points",
            "money": "$ € £ ¥ dollar dollars euro euros pound pounds crown crowns thaler thalers mark marks livre "
                     "livres franc francs peso pesos yen yuan cents pence kronen dólares libras",
            "metre": "metre metres meter meters metro metros mètres m",
            "kilometre": "kilometre kilometres kilometer kilometers km kilómetros kilomètres",
            "mile": "mile miles millas meilen",
            "second": "second seconds sekunde sekunden segundos secondes",
            "minute": "minute minutes minuten minutos",
            "hour": "hour hours stunde stunden horas heures",
            "day": "day days tag tage tagen días jours",
            "week": "week weeks woche wochen semanas semaines",
            "month": "month months monat monate monaten meses mois",
            "year": "year years jahr jahre jahren años ans année années",
            "degree": "degree degrees ° grad grados degrés",
            "kilogram": "kilogram kilograms kg kilogramm kilos",
            "tonne": "tonne tonnes ton tons tonnen toneladas",
        }.items()
        for word in words.split()
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class NumberMention:
    """A number and what it counts."""

    value: float
    unit: str
    "A kind of unit; empty for anything else that is counted."
    digits: bool
    "Written in digits, so it must be meant as a number."


def parse_numbers(text: str) -> list[NumberMention]:
    """Read the numbers of a text, in order; `1,900`, `1.9 thousand` and `nineteen hundred` are one value.

    Cost:
        20 us for a sentence
    """
    tokens = _TOKEN.findall(text.lower())
    found: list[NumberMention] = []
    at = 0
    while at < len(tokens):
        value, digits, after = _parse_number(tokens, at)
        if after == at:
            at += 1
            continue
        unit = "money" if at and tokens[at - 1] in "$€£¥" else _find_unit(tokens[after : after + 2])
        if digits or after - at > 1 or tokens[at] not in _ONES:
            found.append(NumberMention(value, unit, digits))
        at = after
    return found


def is_number_word(word: str) -> bool:
    """Is a word a number, or a part of one?"""
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
    """Read the number that begins at a token: its value, whether in digits, and the token behind it."""
    total = part = 0.0
    digits = False
    begin = at
    while at < len(tokens):
        token = tokens[at]
        if token[0].isdecimal():
            if at > begin:
                break
            part, digits = _parse_digits(token), True
        elif token in _WORDS:
            if at > begin and not (part % 100 == 0 or (20 <= part % 100 < 100 and _WORDS[token] < 10)):
                break
            part += _WORDS[token]
        elif "-" in token and all(piece in _WORDS for piece in token.split("-")):
            part += sum(_WORDS[piece] for piece in token.split("-"))
        elif token in _TIMES and at > begin and not (len(token) == 1 and not digits):
            times = _TIMES[token]
            if times == 100:
                part = (part or 1) * 100
            else:
                total, part = total + (part or 1) * times, 0.0
        elif token in _TIMES and len(token) > 3 and token not in ("cent", "cien"):
            part = float(_TIMES[token])
        else:
            break
        at += 1
    return total + part, digits, at


def _parse_digits(token: str) -> float:
    """Read digits; what parts groups of three parts thousands, anything else is a decimal sign."""
    if _THOUSANDS.match(token) and not token.startswith("0"):
        return float(re.sub(r"\D", "", token))
    plain = re.sub(r"[\u00a0\u202f']", "", token)
    head, _, tail = plain.replace(",", ".").rpartition(".")
    return float(f"{head.replace('.', '')}.{tail}") if head else float(tail)
