"""Files of an archive as rows for the ingest: which file is which, and one record an article.

Going on after an interruption reads a file again up to where it was, but makes nothing of what is done already.
"""

from __future__ import annotations

import bz2
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import PurePosixPath
from typing import Any, Literal

from cluster.errors import HouseError, Invalid, Unavailable
from jobs.archive import feeds, mediawiki, tables
from jobs.archive.source_article import DEFAULT_LICENCE, NoStory, Story, record_of
from jobs.ingest import sources
from jobs.ingest.row import Row, Unreadable
from jobs.ingest.sources import Source

Kind = Literal["mediawiki", "feed", "jsonl", "csv", "tsv", "parquet"]
KINDS: tuple[Kind, ...] = ("mediawiki", "feed", "jsonl", "csv", "tsv", "parquet")

_FEEDS = (".rss", ".atom", ".rdf")
_LOOK = 4_096
_KEPT = 500

Make = Callable[[], Row]
"Makes the record of an article when it is wanted."


@dataclass(frozen=True, slots=True)
class ArchiveReading:
    """How the files of one archive are read."""

    kind: Kind | None = None
    "Of all files; None: by their names and beginnings."
    licence: str = DEFAULT_LICENCE
    topic: str = ""
    language: str = ""

    def find(self, address: str) -> list[Source]:
        """Find the files behind an address.

        Errors:
            Invalid: there is nothing, or nothing of a known kind
        """
        every = sources.find(address, "jsonl")
        # records come out of every kind of file, so to the ingest all of them are JSON Lines
        known = [source for source in every if self._kind(source) is not None]
        if not known:
            raise Invalid(f"there is no archive at {address}; known are {', '.join(KINDS)}")
        return known

    def chunks(self, source: Source, size: int, skip: int = 0) -> Iterator[tuple[int, list[Row]]]:
        """Read a file in lists of `size` records after the first `skip`, each with the number of its first."""
        waiting: list[Row] = []
        first = skip
        for number, make in enumerate(self._makers(source)):
            if number < skip:
                continue
            waiting.append(make())
            if len(waiting) == size:
                yield first, waiting
                first, waiting = number + 1, []
        if waiting:
            yield first, waiting

    def _makers(self, source: Source) -> Iterator[Make]:
        """Say how to make the record of every article of a file.

        Errors:
            Invalid: the file is damaged, or not of its kind
            Unavailable: an object store does not give it
        """
        try:
            yield from self._articles(source)
        except (OSError, EOFError) as error:
            raise _unread(source, error) from error

    def _articles(self, source: Source) -> Iterator[Make]:
        kind = self._kind(source)
        if kind == "mediawiki":
            yield from self._pages(source)
        elif kind == "feed":
            with _opened(source) as stream:
                data = stream.read(feeds.LARGEST_FEED + 1)
            for story in feeds.stories(data):
                yield partial(self._record, story)
        else:
            for row in sources.rows(replace(source, format=kind or "jsonl")):
                yield partial(self._row, row)

    def _pages(self, source: Source) -> Iterator[Make]:
        wiki = mediawiki.Wiki()
        with _opened(source) as stream:
            for page in mediawiki.pages(stream, wiki):
                if isinstance(page, bytes) and not mediawiki.may_be_article(page):
                    continue
                yield partial(self._page, page, wiki)

    def _page(self, page: bytes | Unreadable, wiki: mediawiki.Wiki) -> Row:
        if isinstance(page, Unreadable):
            return page
        try:
            return self._made(mediawiki.story_of(page, wiki))
        except NoStory as error:
            return Unreadable(str(error), page[:_KEPT].decode("utf-8", "replace"))
        except (ValueError, RecursionError, MemoryError) as error:
            # wiki text is a language of its own; whatever one page does to its parser, the next ones go on
            return Unreadable(
                f"page can't be read: {type(error).__name__}", page[:_KEPT].decode("utf-8", "replace")
            )

    def _row(self, row: Row) -> Row:
        if isinstance(row, Unreadable):
            return row
        if tables.is_record(row):
            return {"type": "article", "enable_question_answering": True, **row}
        return self._record(tables.story_of(row))

    def _record(self, story: Story) -> Row:
        try:
            return self._made(story)
        except NoStory as error:
            return Unreadable(str(error), f"{story.id} {story.title}"[:_KEPT])

    def _made(self, story: Story) -> dict[str, Any]:
        return record_of(story, licence=self.licence, topic=self.topic, language=self.language)

    def _kind(self, source: Source) -> Kind | None:
        return self.kind or kind_of(source)


def kind_of(source: Source) -> Kind | None:
    """Tell what a file is by its name; XML by its beginning.

    Errors:
        Invalid, Unavailable: its beginning can't be read
    """
    name = source.path.lower()
    for suffix in sources.PACKED:
        name = name.removesuffix(suffix)
    ending = PurePosixPath(name).suffix
    if ending in _FEEDS:
        return "feed"
    if ending != ".xml":
        return sources.format_of(source.path)
    try:
        with _opened(source) as stream:
            beginning = stream.read(_LOOK)
    except (OSError, EOFError) as error:
        raise _unread(source, error) from error
    return "mediawiki" if b"<mediawiki" in beginning else "feed"


def _unread(source: Source, error: Exception) -> HouseError:
    """Say that a file can't be read: nothing helps where it is on a disk, elsewhere the next attempt may."""
    kind = Invalid if source.is_local else Unavailable
    return kind(f"{source.name} can't be read to its end: {error}")


class _Opened:
    """A packed stream as something to read from; bz2 by the standard library, since dumps come in many pieces."""

    def __init__(self, source: Source) -> None:
        if source.path.lower().endswith(".bz2"):
            self._raw = source.files.open_input_file(source.path)
            self._stream: Any = bz2.BZ2File(self._raw)
        else:
            self._raw = None
            self._stream = source.files.open_input_stream(source.path, compression="detect")

    def read(self, size: int) -> bytes:
        data: bytes = self._stream.read(size)
        return data

    def __enter__(self) -> _Opened:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()
        if self._raw is not None:
            self._raw.close()


def _opened(source: Source) -> _Opened:
    return _Opened(source)
