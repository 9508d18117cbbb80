"""Bodies of the history of questions, and their replies.

Published in `docs/reference/rest.md`, section History.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, WithJsonSchema

from cluster.records.field_types.fields import Moment
from deployments.api.wire.query_bodies import Count, Flag, Offset, RequestModel
from deployments.api.wire.validation_errors import build_error

MOST_IDS = 10_000
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")


def _uuid(value: str) -> str:
    plain = value.lower()
    if not _UUID.fullmatch(plain):
        raise build_error("value is not a valid uuid", "type_error.uuid")
    return plain


UserIdText = Annotated[str, Field(min_length=1, max_length=512)]
QuestionId = Annotated[str, AfterValidator(_uuid), WithJsonSchema({"type": "string", "format": "uuid"})]
Title = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=500)]


class UserBody(RequestModel):
    """The user whose history is meant. Unknown fields are ignored."""

    model_config = ConfigDict(**{**RequestModel.model_config, "extra": "ignore"})

    user_id: UserIdText | None = None
    "Required with a secret key; with a token it may be absent, and otherwise must match the token."
    jwt_token: str | None = None
    "A user token, for clients that can't send a header."


class ThreadList(UserBody):
    """A page of the thread list."""

    rows: Count = 100
    start: Offset = 0
    before: Moment | None = None
    "Only threads with older activity."


class ThreadBody(UserBody):
    """A thread, named by any of its questions."""

    thread_id: QuestionId


class ThreadContents(ThreadBody):
    """A page of the questions of a thread."""

    rows: Count = 30
    order: Literal["asc", "desc"] = "asc"
    after: str | None = None
    "A question id; the page begins after it. An unknown id is ignored."


class Rename(ThreadBody):
    """Another title for a thread."""

    title: Title


class Deletion(UserBody):
    """Threads to delete, named by their first questions."""

    question_ids: Annotated[list[QuestionId], Field(max_length=MOST_IDS)]


class NewTitle(UserBody):
    """Another title for the thread in the path."""

    title: Title


class ThreadDeletion(UserBody):
    """Threads to delete, named by their ids."""

    thread_ids: Annotated[list[QuestionId], Field(max_length=MOST_IDS)]


class Touch(ThreadBody):
    """A thread whose indicator to set."""

    generate: Flag = False
    "Whether to ask the thread's question again and append the answer."


class ShownThread(BaseModel):
    """A thread. `id` and `question_id` are both the id of its first question."""

    id: str
    question_id: str
    title: str
    time: str
    subscribed: bool
    has_new: bool


class Threads(BaseModel):
    """Threads, latest activity first."""

    threads: list[ShownThread]
    has_more: bool
    start: int
    rows: int


class ThreadQuestions(BaseModel):
    """Questions of a thread."""

    question_ids: list[str]
    has_more: bool


class Renamed(BaseModel):
    """The thread by its new title."""

    question_id: str
    title: str


class DeletedThreads(BaseModel):
    """How many threads there were to delete."""

    deleted_count: int


class Updates(BaseModel):
    """The account's indicator."""

    has_new: bool


class Touched(BaseModel):
    """The result of a touch: `generated` comes with `generate`, `question_id` when an answer was generated."""

    touched: Literal[0, 1]
    generated: bool | None = None
    question_id: str | None = None


class ThreadResource(BaseModel):
    """A thread by its id."""

    thread_id: str
    title: str
    updated_at: str
    subscribed: bool
    has_new: bool


class ThreadResources(BaseModel):
    """All threads of a user, latest activity first."""

    threads: list[ThreadResource]


class WholeThread(ThreadResource):
    """A thread with its questions, oldest first."""

    questions_ids: list[str]


class Notifications(BaseModel):
    """The unread updates of a user."""

    has_new: bool
    unread_count: int
    last_update_at: str | None


Body = type[UserBody]
Shown = dict[str, Any]
