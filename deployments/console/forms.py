"""Reads posted forms: bounded in bytes, fields and time, uploads on disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request

from cluster.errors import Invalid, TooLarge, TooMany
from deployments.edge.request import ClientDisconnected, Deadline, DeadlineExceeded

MOST_FIELDS = 500
MOST_FILES = 5
WITHIN_S = 20.0
"Seconds for a form without uploads."
UPLOAD_WITHIN_S = 600.0
UPLOADS, UPLOADS_OF_PERSON = 6, 2
"Forms with files that arrive at once in this process."
CHARSETS = (b"utf-8", b"utf8")
FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")


class UploadPlaces:
    """Bounds how many forms with files arrive at once: each may fill the disk with a file."""

    def __init__(self) -> None:
        self._of_person: Counter[str] = Counter()

    @contextmanager
    def place_for(self, user_id: str, *, is_needed: bool) -> Iterator[None]:
        """Hold a place for a form, if it needs one.

        Errors:
            TooMany: all places are taken, or those of one person
        """
        if not is_needed:
            yield
            return
        if self._of_person[user_id] >= UPLOADS_OF_PERSON or self._of_person.total() >= UPLOADS:
            raise TooMany("too many files arrive at once; send this one later", retry_after_s=10)
        self._of_person[user_id] += 1
        try:
            yield
        finally:
            self._of_person[user_id] -= 1
            self._of_person += Counter()  # drops people without an upload


async def read_form(request: Request, most_bytes: int, *, is_upload: bool = False) -> FormData:
    """Return the fields and files of a form.

    Errors:
        TooLarge: more bytes than allowed
        Invalid: not a form, too many fields, or too slow
    """
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    if kind.decode("latin-1").strip().lower() not in FORMS:
        raise Invalid("the request holds no form")
    # Some codecs of Python take time that grows with the square of a text; browsers name UTF-8 or nothing.
    if options.get(b"charset", b"utf-8").strip().lower() not in CHARSETS:
        raise Invalid("the form is not in UTF-8")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Invalid("the form is compressed")
    bounded = Request(request.scope, _bounded(request.receive, most_bytes))
    try:
        with Deadline(UPLOAD_WITHIN_S if is_upload else WITHIN_S):
            return await bounded.form(
                max_files=MOST_FILES, max_fields=MOST_FIELDS, max_part_size=min(most_bytes, 1 << 20)
            )
    except DeadlineExceeded:
        raise Invalid("the form did not arrive in time") from None
    except HTTPException as error:
        raise Invalid(f"the form can't be read: {error.detail}") from None
    except (ValueError, KeyError, UnicodeError):
        raise Invalid("the form can't be read") from None


def split_form(data: FormData) -> tuple[dict[str, str], dict[str, list[str]], dict[str, UploadFile]]:
    """Return fields, all values of each field, and files."""
    fields: dict[str, str] = {}
    lists: dict[str, list[str]] = {}
    files: dict[str, UploadFile] = {}
    for name, value in data.multi_items():
        if isinstance(value, UploadFile):
            files[name] = value
        else:
            fields[name] = value
            lists.setdefault(name, []).append(value)
    return fields, lists, files


def _bounded(receive: Any, most_bytes: int) -> Any:
    taken = 0

    async def receive_bounded() -> Any:
        nonlocal taken
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnected
        taken += len(message.get("body", b""))
        if taken > most_bytes:
            raise TooLarge(f"the form is larger than {most_bytes:,} bytes")
        return message

    return receive_bounded
