"""Stories to readers: who they are, as user records."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Any

from cluster.clock import from_ms
from jobs.playground.data_files import People, Place, Story, people, stories
from jobs.playground.seeded_random import Dice

_DAY_MS = 86_400_000
_PLANS = ("free", "registered", "subscriber")


@dataclass(frozen=True, slots=True)
class Reader:
    """One reader and the story behind the clicks."""

    user_id: str
    visitor_id: str
    "The anonymous id before signing in; empty when the reader always signed in."
    story: Story
    place: Place
    record: dict[str, Any]
    "The user record."


def readers(now_ms: int) -> list[Reader]:
    """Make all readers; ids are unique and sorted by story."""
    everyone = people()
    made: list[Reader] = []
    for story in stories():
        for number in range(1, story.readers + 1):
            made.append(_reader(story, number, len(made) + 1, everyone, now_ms))
    return made


def _reader(story: Story, number: int, serial: int, everyone: People, now_ms: int) -> Reader:
    dice = Dice("reader", story.name, number)
    place = dice.pick(everyone.places)
    names = everyone.names[place.language]
    gender = dice.pick(("F", "M"))
    first = dice.pick(names.F if gender == "F" else names.M)
    last = dice.pick(names.last)
    user_id = f"{_ascii(first)}-{_ascii(last)}-{serial:03d}"
    joined_ms = now_ms - dice.whole(story.days + 10, 1_400) * _DAY_MS
    record: dict[str, Any] = {
        "user_id": user_id,
        "name": f"{first} {last}",
        "age": dice.whole(*story.ages),
        "gender": gender,
        "city": place.city,
        "country": place.country,
        "description": story.about,
        "created_at": from_ms(joined_ms).strftime("%Y-%m-%d"),
        "updated_at": from_ms(now_ms - dice.whole(0, 20) * _DAY_MS).strftime("%Y-%m-%d"),
        "custom_attributes": {
            "story": story.name,
            "interests": list(story.interests),
            "preferred_language": place.language,
            "newsletter": dice.chance(0.4),
            "plan": dice.weighted(_PLANS, (5, 3, 2)),
        },
    }
    if story.name == "family":
        record["group_id"] = f"household-{(number + 1) // 2:02d}"
    visitor_id = f"visitor-{serial:03d}" if dice.chance(0.35) else ""
    return Reader(user_id, visitor_id, story, place, record)


def _ascii(name: str) -> str:
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return plain.lower().replace(" ", "-")
