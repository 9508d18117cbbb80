"""What the things a question can ask for look like in a sentence: numbers with units, dates, names, reasons.

Sentences are cut into words once and the words looked up, so the time is linear however strange the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from types import MappingProxyType

CharSpan = tuple[int, int]
"Where something stands in a sentence."

_WORD = re.compile(r"\d{1,15}(?:[.,:]\d{1,15}){0,4}|[^\W\d_]{1,40}|[%$€£¥°“\"]")
_NUMBER_WORDS_TEXT = """
half one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred hundreds thousand
thousands million millions billion billions dozen dozens several una dos tres cuatro cinco seis siete ocho
nueve diez once doce trece catorce quince veinte treinta cuarenta cien ciento mil millones ein eine einen
einem einer zwei drei vier fünf sechs sieben acht neun zehn elf zwölf zwanzig dreißig vierzig fünfzig
hundert tausend millionen deux trois quatre cinq sept huit neuf dix onze douze vingt trente cent mille
"""
_NUMBER_WORDS = frozenset(_NUMBER_WORDS_TEXT.split())
_UNITS = {
    "money": (
        "dollar dollars euro euros pound pounds crown crowns thaler thalers mark marks livre livres "
        "franc francs peso pesos yen yuan rupee rupees ruble rubles dinar dinars cent cents pence "
        "kroner krone shilling shillings lire won dólares libras francos marcos pesetas pfund franken "
        "kronen centimes $ € £ ¥"
    ),
    "length": (
        "metre metres meter meters kilometre kilometres kilometer kilometers centimetre centimetres "
        "millimetre millimetres nanometre nanometres micrometre micrometres metro metros kilómetro "
        "kilómetros centímetros metern kilomètre kilomètres mètre mètres km cm mm nm m mile miles "
        "milla millas meile meilen feet foot ft inch inches yard yards pies pulgadas fuß zoll hectare "
        "hectares acre acres storey storeys stories light"
    ),
    "duration": (
        "second seconds minute minutes hour hours day days week weeks month months year years decade "
        "decades century centuries night nights season seasons generation generations segundo "
        "segundos minuto minutos hora horas día días semana semanas mes meses año años década décadas "
        "siglo siglos sekunde sekunden minuten stunde stunden tag tage tagen woche wochen monat "
        "monate monaten jahr jahre jahren jahrzehnt jahrzehnte jahrhundert jahrhunderte seconde "
        "secondes heure heures jour jours semaine semaines mois ans année années siècle siècles"
    ),
    "share": "% percent per prozent ciento pour",
    "temperature": "° degree degrees grados grad degrés",
    "weight": (
        "gram grams gramme grammes kilogram kilograms kilo kilos kg ton tons tonne tonnes ounce "
        "ounces gramo gramos gramm tonnen"
    ),
}
_UNIT_OF = MappingProxyType(
    {
        word: tuple(kind for kind, words in _UNITS.items() if word in words.split())
        for text in _UNITS.values()
        for word in text.split()
    }
)
_UNIT_DISTANCE = 4
"How many words behind a number its unit may stand: `two and a half million crowns`."
_JOINS_TEXT = """
and a half million billion trillion hundred thousand millionen millones de of cubic square
"""
_JOINS = frozenset(_JOINS_TEXT.split())
_SHARES_TEXT = """
half quarter third thirds fifth fifths tenth tenths majority mitad tercio hälfte drittel viertel moitié
tiers
"""
_SHARES = frozenset(_SHARES_TEXT.split())
_WHEN_TEXT = """
january february march april may june july august september october november december jan feb apr aug sept
oct nov dec enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre januar
februar märz mai juni juli oktober dezember janvier février mars avril juin juillet août septembre octobre
novembre décembre monday tuesday wednesday thursday friday saturday sunday mondays tuesdays wednesdays
thursdays fridays saturdays sundays
"""
_WHEN = frozenset(_WHEN_TEXT.split())
"Only when written with a capital, but for languages that write them small."
_SMALL_MONTHS_TEXT = """
enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre janvier février
mars avril juin juillet août septembre octobre novembre décembre
"""
_SMALL_MONTHS = frozenset(_SMALL_MONTHS_TEXT.split())
_PERIODS_TEXT = """
century centuries siglo siglos jahrhundert jahrhunderts siècle spring summer autumn winter midnight noon
yesterday tomorrow today tonight decade
"""
_PERIODS = frozenset(_PERIODS_TEXT.split())
_SINCE = frozenset(["until", "since", "bis", "seit", "hasta", "desde", "jusqu", "depuis"])
_STRONG_TEXT = """
because due cause caused causes causing reason result resulted owing thanks porque debido causa razón weil
wegen grund aufgrund denn parce car afin
"""
_STRONG = frozenset(_STRONG_TEXT.split())
_WEAK_TEXT = """
since therefore thus led leads after when as avoid fear over want made traced so ya para por da damit um
pour
"""
_WEAK = frozenset(_WEAK_TEXT.split())
_PLACES_TEXT = """
in at near from to off on outside inside beneath under across through en de desde hacia a bei aus nach im am
an zu à dans sur
"""
_PLACES = frozenset(_PLACES_TEXT.split())
_BY_TEXT = """
by with using through via mit durch indem mediante con por avec par en
"""
_BY = frozenset(_BY_TEXT.split())
_PAIRED_TEXT = """
in at near from off on outside inside beneath under to into
"""
_PAIRED = frozenset(_PAIRED_TEXT.split())
_ARTICLES = frozenset(["a", "an", "the", "its", "his", "her", "their"])
_ENDS = ("ers", "er", "ors", "or", "ists", "ist", "ians", "ian", "nurse", "nurses", "ees")
_PEOPLE_TEXT = """
man woman men women people person children boy girl father mother son daughter wife husband king queen
family crew team company foundation government parliament council party union residents volunteers army
"""
_PEOPLE = frozenset(_PEOPLE_TEXT.split())
_CAPITAL = "A-ZÀ-ÖØ-ÞŁŚŻŽŠČİ"
_NAME = re.compile(rf"(?<!\w)[{_CAPITAL}][\w’'&.-]{{0,30}}")
_LINKS_TEXT = """
de van von der da di la le el al bin of the &
"""
_LINKS = frozenset(_LINKS_TEXT.split())
_LINK = re.compile(r"\s{1,2}(?:([\w&]{1,3})\s{1,2})?(?:the\s)?\Z")


def find_numbers(sentence: str) -> list[CharSpan]:
    """Find the numbers, in digits or words."""
    return [spot for word, spot in split_words(sentence) if _is_number(word)]


def find_entities(kind: str, sentence: str) -> list[CharSpan]:
    """Find what is of a kind: money, length, duration, share, temperature, speed, age, time, reason, place ..."""
    words = split_words(sentence)
    if kind in _UNITS:
        found = list(_find_measures(words, kind))
        if kind == "share":
            found += [spot for word, spot in words if word.lower() in _SHARES]
        if kind == "duration":
            found += [spot for word, spot in words if word.lower() in _SINCE]
        return found
    if kind == "time":
        return [spot for word, spot in words if _is_time(word)]
    if kind == "age":
        return list(_find_ages(sentence, words))
    if kind == "speed":
        return list(_find_speeds(words))
    chosen = {"strong reason": _STRONG, "reason": _WEAK, "manner": _BY}.get(kind)
    if chosen is not None:
        return [spot for word, spot in words if word.lower() in chosen]
    return list(_find_places(words, kind == "there"))


def find_name_spans(sentence: str) -> list[CharSpan]:
    """Find stretches that are written like names."""
    found: list[CharSpan] = []
    for match in _NAME.finditer(sentence):
        start, end = match.start(), match.end()
        if end - start > 2 and match[0].endswith((".", "’", "'")):
            end -= 1
        between = sentence[found[-1][1] : start] if found else ""
        if (
            found
            and len(between) <= 9
            and (link := _LINK.match(between))
            and (not link[1] or link[1] in _LINKS)
        ):
            found[-1] = (found[-1][0], end)
        else:
            found.append((start, end))
    return found


def find_role(sentence: str) -> CharSpan | None:
    """Find the first word for somebody: a trade, a body of people."""
    for word, spot in split_words(sentence):
        small = word.lower()
        if small in _PEOPLE or (len(small) > 5 and small.endswith(_ENDS)):
            return spot
    return None


def split_words(sentence: str) -> list[tuple[str, CharSpan]]:
    """Cut a sentence into all its words, with their places."""
    return [(match[0], match.span()) for match in _WORD.finditer(sentence)]


def _is_number(word: str) -> bool:
    return word[0].isdecimal() or word.lower() in _NUMBER_WORDS


def _is_time(word: str) -> bool:
    if word[0].isdecimal():
        return (
            (len(word) == 4 and word[:2] in _CENTURIES and word.isdecimal())
            or (":" in word and len(word) < 6)
            or _is_clock(word)
        )
    small = word.lower()
    return (small in _WHEN and (word[0].isupper() or small in _SMALL_MONTHS)) or small in _PERIODS


_CENTURIES_TEXT = """
10 11 12 13 14 15 16 17 18 19 20
"""
_CENTURIES = frozenset(_CENTURIES_TEXT.split())


def _is_clock(word: str) -> bool:
    hour, _, minute = word.partition(".")
    return len(minute) == 2 and hour.isdecimal() and len(hour) <= 2 and minute.isdecimal() and minute < "60"


def _find_measures(words: list[tuple[str, CharSpan]], kind: str) -> Iterator[CharSpan]:
    """Find numbers with a unit of a kind right behind them, one other word between at most."""
    for at, (word, (start, _)) in enumerate(words):
        if word in _SIGNS and kind == "money" and at + 1 < len(words) and _is_number(words[at + 1][0]):
            yield start, words[at + 1][1][1]
        if not _is_number(word):
            continue
        others = 0
        for unit, (_, end) in words[at + 1 : at + 1 + _UNIT_DISTANCE]:
            small = unit.lower()
            if kind in _UNIT_OF.get(small, ()):
                yield start, end
                break
            if small not in _JOINS and not _is_number(unit):
                others += 1
                if others > 1:
                    break


_SIGNS = frozenset("$€£¥")


def _find_ages(sentence: str, words: list[tuple[str, CharSpan]]) -> Iterator[CharSpan]:
    """Find ages: `Volk, 58, won`, `aged 51`, `9,600 years old`, `at the age of four`."""
    for at, (word, (start, end)) in enumerate(words):
        small = word.lower()
        if small in ("age", "aged", "old", "alter", "alt", "ans", "años", "edad") or (
            word.isdecimal()
            and len(word) <= 3
            and at
            and sentence[start - 2 : start] == ", "
            and sentence[end : end + 1] in ",."
        ):
            yield start, end


def _find_speeds(words: list[tuple[str, CharSpan]]) -> Iterator[CharSpan]:
    for (word, (start, _)), (other, (_, end)) in pairwise(words):
        if word.lower() in _PER and other.lower() in _CLOCK:
            yield start, end
    yield from (spot for word, spot in words if word.lower() in ("mph", "kmh", "knots"))


_PER = frozenset(["an", "per", "por", "pro", "par", "a", "l", "km", "m"])
_CLOCK = frozenset(["hour", "second", "hora", "segundo", "stunde", "sekunde", "heure", "h", "s"])


def _find_places(words: list[tuple[str, CharSpan]], is_plain: bool) -> Iterator[CharSpan]:
    """Find `in Tolvik`, `off the coast of Velmora`; plain: `in a former swimming pool`."""
    for at, (word, (start, _)) in enumerate(words):
        small = word.lower()
        following = words[at + 1 : at + 5]
        if is_plain:
            if small in _PAIRED and len(following) > 1 and following[0][0].lower() in _ARTICLES:
                yield start, following[1][1][1]
        elif small in _PLACES:
            for other, (_, end) in following:
                if other[0].isupper():
                    yield start, end
                    break
