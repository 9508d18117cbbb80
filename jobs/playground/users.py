"""User records of the playground, made from stories."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Any

from cluster.clock import from_ms
from jobs.playground.data_files import HomeTown, PeopleData, UserStory, read_people, read_user_stories
from jobs.playground.seeded_random import SeededRandom

_DAY_MS = 86_400_000
_PLANS = ("free", "registered", "subscriber")


@dataclass(frozen=True, slots=True)
class SampleUser:
    """One user and the story that generates the sessions."""

    user_id: str
    visitor_id: str
    "The anonymous id before the sign-in; empty if the user was always signed in."
    story: UserStory
    place: HomeTown
    record: dict[str, Any]
    "The user record."


def build_users(now_ms: int) -> list[SampleUser]:
    """Return all users; ids are unique and sorted by story."""
    everyone = read_people()
    made: list[SampleUser] = []
    for story in read_user_stories():
        for number in range(1, story.users + 1):
            made.append(_build_user(story, number, len(made) + 1, everyone, now_ms))
    return made


def _build_user(story: UserStory, number: int, serial: int, everyone: PeopleData, now_ms: int) -> SampleUser:
    dice = SeededRandom("reader", story.name, number)
    place = dice.choice(everyone.places)
    names = everyone.names[place.language]
    gender = dice.choice(("F", "M"))
    first = dice.choice(names.F if gender == "F" else names.M)
    last = dice.choice(names.last)
    user_id = f"{_to_ascii(first)}-{_to_ascii(last)}-{serial:03d}"
    joined_ms = now_ms - dice.randint(story.days + 10, 1_400) * _DAY_MS
    record: dict[str, Any] = {
        "user_id": user_id,
        "name": f"{first} {last}",
        "age": dice.randint(*story.ages),
        "gender": gender,
        "city": place.city,
        "country": place.country,
        "description": story.about,
        "created_at": from_ms(joined_ms).strftime("%Y-%m-%d"),
        "updated_at": from_ms(now_ms - dice.randint(0, 20) * _DAY_MS).strftime("%Y-%m-%d"),
        "custom_attributes": {
            "story": story.name,
            "interests": list(story.interests),
            "preferred_language": place.language,
            "newsletter": dice.is_chosen(0.4),
            "plan": dice.weighted_choice(_PLANS, (5, 3, 2)),
        },
    }
    if story.name == "family":
        record["group_id"] = f"household-{(number + 1) // 2:02d}"
    visitor_id = f"visitor-{serial:03d}" if dice.is_chosen(0.35) else ""
    return SampleUser(user_id, visitor_id, story, place, record)


def _to_ascii(name: str) -> str:
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return plain.lower().replace(" ", "-")
