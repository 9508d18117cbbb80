"""What people type into a search bar, made from titles: 60 % of a title, with typos of all kinds. Fixed seeds."""

from __future__ import annotations

import gzip
import json
import random
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from actors.language.folding import fold_text
from actors.retrieval.autocomplete.folded_texts import restore_article

_SHARE = 0.6
_SHORTEST = {0: 5, 1: 5, 2: 7, 3: 10, 4: 14}
"Number of typos -> characters typed at least; nobody makes four typos in five letters."
_HASTY = {0: 3, 1: 3, 2: 6, 3: 8, 4: 10}
"The same for people who type carelessly and stop early."
_HALF_TYPED = {0: 4, 1: 5, 2: 7, 3: 10, 4: 12}
"The same for beginnings that may have typos anywhere: as many as the look-up allows for the length."
_ANY = string.ascii_lowercase + string.digits + " "


@dataclass(frozen=True, slots=True)
class Case:
    """One query and the title that was meant."""

    typed: str
    title: str


@dataclass(frozen=True, slots=True)
class Titles:
    """Titles and how popular each is."""

    name: str
    texts: list[str]
    popularity: list[float]
    typed: Mapping[str, str] = field(default_factory=dict)
    "What people type for a title, where it is not the title itself."


def load(data: Path, name: str) -> Titles:
    """Read one of the title sets."""
    with gzip.open(data / "titles" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return Titles(
        name, [row["title"] for row in rows], [float(row.get("ratings_count") or 1) for row in rows]
    )


def load_films(data: Path) -> Titles:
    """Read films as film catalogs list them, `Matrix, The (1999)`; people type `the matrix`."""
    with gzip.open(data / "titles" / "wikipedia_movies.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    typed = {}
    for row in rows:
        article, _, rest = row["title"].partition(" ")
        moved = f"{rest}, {article}" if article in ("The", "A", "An") and rest else row["title"]
        typed[f"{moved} ({row['year']})"] = row["title"]
    return Titles("films with years", list(typed), [1.0] * len(typed), typed)


def load_all(data: Path) -> Titles:
    """Read books, films with years and cities as one set; a title counts with its largest popularity."""
    films = load_films(data)
    popularity: dict[str, float] = {}
    for titles in (load(data, "goodbooks"), films, load(data, "world_cities")):
        for text, worth in zip(titles.texts, titles.popularity, strict=True):
            popularity[text] = max(popularity.get(text, 0.0), worth)
    return Titles("all titles", list(popularity), list(popularity.values()), films.typed)


def generate(count: int, seeds: Sequence[Titles]) -> Titles:
    """Make titles by crossing the beginnings and ends of real ones; popularity falls like 1/rank."""
    rng = random.Random(count)
    texts = list(dict.fromkeys(text for titles in seeds for text in titles.texts))
    words = [text.split() for text in texts]
    seen = set(texts)
    while len(texts) < count:
        first, second = rng.choice(words), rng.choice(words)
        text = " ".join(first[: rng.randint(1, 3)] + second[-rng.randint(1, 3) :])
        if text not in seen:
            seen.add(text)
            texts.append(text)
    texts = texts[:count]
    ranks = list(range(1, count + 1))
    rng.shuffle(ranks)
    return Titles(f"generated {count:,}", texts, [1e6 / rank for rank in ranks])


def with_typos(
    titles: Titles, typos: int, count: int, *, first_letter: bool = False, hasty: bool = False
) -> list[Case]:
    """Type the beginnings of some titles with so many typos.

    `first_letter`: one of them is in the first letter; `hasty`: in shorter beginnings.
    """
    rng = random.Random(f"{titles.name} {typos} {first_letter}")
    cases = []
    for title in rng.sample(_long_enough(titles, (_HASTY if hasty else _SHORTEST)[typos]), count):
        typed = _begun(titles.typed.get(title, title))
        if first_letter:
            letter = rng.choice(string.ascii_lowercase.replace(typed[0], ""))
            typed = rng.choice(
                [letter + typed[1:], typed[1:], typed[1] + typed[0] + typed[2:], letter + typed]
            )
            typed = typed[:1] + _mistyped(typed[1:], typos - 1, rng)
        else:
            typed = _mistyped(typed, typos, rng)
        cases.append(Case(typed, title))
    return cases


def half_typed(titles: Titles, typos: int, count: int, *, share: float = 0.5) -> list[Case]:
    """Type the first half of some titles with their years, with typos anywhere: in digits and in blanks, too."""
    rng = random.Random(f"{titles.name} {typos} {share}")
    order = sorted(set(titles.texts))
    rng.shuffle(order)
    cases = []
    for title in order:
        whole = fold_text(restore_article(title))
        beginning = whole[: int(len(whole) * share)].rstrip()
        if len(beginning) >= _HALF_TYPED[typos]:
            cases.append(Case(_mistyped(beginning, typos, rng, _ANY), title))
        if len(cases) == count:
            break
    return cases


def misspelled(titles: Titles, data: Path, count: int) -> list[Case]:
    """Type titles of which one word is spelled as people really misspell it."""
    wrong: dict[str, list[str]] = {}
    for name in ("codespell", "wikipedia"):
        with gzip.open(data / "typos" / f"{name}.tsv.gz", "rt", encoding="utf-8") as lines:
            for line in lines:
                spelled, _, right = line.rstrip("\n").partition("\t")
                if "," not in right and right.isalpha() and spelled.isalpha():
                    wrong.setdefault(right.lower(), []).append(spelled.lower())
    rng = random.Random(f"{titles.name} misspelled")
    cases = []
    order = sorted(set(titles.texts))
    rng.shuffle(order)
    for title in order:
        words = _begun(titles.typed.get(title, title)).split()
        places = [at for at, word in enumerate(words) if word in wrong]
        if places:
            at = rng.choice(places)
            words[at] = rng.choice(wrong[words[at]])
            cases.append(Case(" ".join(words), title))
        if len(cases) == count:
            break
    return cases


def _long_enough(titles: Titles, least: int) -> list[str]:
    typed = titles.typed
    return sorted(
        {title for title in titles.texts if int(len(fold_text(typed.get(title, title))) * _SHARE) >= least}
    )


def _begun(title: str) -> str:
    whole = fold_text(title)
    return whole[: max(4, int(len(whole) * _SHARE))].rstrip()


def _mistyped(typed: str, typos: int, rng: random.Random, alphabet: str = string.ascii_lowercase) -> str:
    letters = list(typed)
    for _ in range(typos):
        at, letter = rng.randrange(max(len(letters), 1)), rng.choice(alphabet)
        kind = rng.choice(["replace", "insert", "delete", "swap"])
        if kind == "insert":
            letters.insert(at, letter)
        elif kind == "delete" and len(letters) > 3:
            del letters[at]
        elif kind == "swap" and at + 1 < len(letters):
            letters[at], letters[at + 1] = letters[at + 1], letters[at]
        else:
            letters[at] = letter
    return "".join(letters)
