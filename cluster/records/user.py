"""The user record."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from cluster.records.field_types.fields import (
    Attributes,
    Content,
    DayOrMoment,
    ShortText,
    Strict,
    Uri,
    UserId,
)


class User(Strict):
    """A user. An upload replaces the whole record.

    Published in `docs/reference/rest.md`, section Users.
    """

    user_id: UserId
    created_at: DayOrMoment | None = None
    "Account times, for the user's page and for parts by month of an experiment; Kiosk never sets a default."
    updated_at: DayOrMoment | None = None
    name: ShortText | None = None
    "For the user's page and the search of users; not used for ranking."
    profile_image: Uri | None = None
    "For the user's page."
    age: Annotated[int, Field(ge=-(2**31), lt=2**31)] | None = None
    "Returned as sent; bounded so that it fits every column."
    gender: ShortText | None = None
    "Free text."
    city: ShortText | None = None
    state: ShortText | None = None
    country: ShortText | None = None
    group_id: ShortText | None = None
    "Account or company: a preference signal."
    description: Content | None = None
    "For the user's page and the search of users; not used for ranking."
    custom_attributes: Attributes | None = None


USER_TIMES: Final = ("created_at", "updated_at")
"Fields that are rewritten into UTC."
