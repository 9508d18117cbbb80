"""Files of an archive as rows for the ingest: detection of file kinds, and one record per article.

After an interruption, a file is read again from its beginning, but no records are made of the finished part.
"""

from __future__ import annotations

import bz2
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import PurePosixPath
from typing import Any, Literal, get_args

from cluster.errors import Invalid, KioskError, Unavailable
from jobs.articles import feeds, mediawiki, tables, wordpress_exports
from jobs.articles.source_article import DEFAULT_LICENCE, NotAnArticle, SourceArticle, record_from_article
from jobs.ingest.files import sources
from jobs.ingest.files.chunks import CHUNK_BYTES, ReadBounds, cut_rows
from jobs.ingest.files.sources import SourceFile
from jobs.ingest.files.unreadable_row import Row, UnreadableRow

Kind = Literal["mediawiki", "wordpress", "feed", "jsonl", "csv", "tsv", "parquet"]
KINDS: tuple[Kind, ...] = get_args(Kind)

_FEEDS = (".rss", ".atom", ".rdf")
_SNIFF_BYTES = 4_096
_KEPT = 500

RowFactory = Callable[[], Row]
"Returns the record of an article; called only if the record is needed."


@dataclass(frozen=True, slots=True)
class ArchiveReading:
    """The reading options of one archive."""

    kind: Kind | None = None
    "Kind of all files; None: detected from the name and the beginning of each file."
    licence: str = DEFAULT_LICENCE
    topic: str = ""
    language: str = ""

    def find(self, address: str) -> list[SourceFile]:
        """Return the files of an address.

        Errors:
            Invalid: the address has no file, or none of a known kind
        """
        every = sources.find_files(address, "jsonl")
        # each kind of file becomes records, so the ingest treats all of them as JSON Lines
        readable = [source for source in every if self._kind(source) is not None]
        if not readable:
            raise Invalid(f"there is no archive at {address}; known are {', '.join(KINDS)}")
        return readable

    def chunks(self, source: SourceFile, size: int, skip: int = 0) -> Iterator[tuple[int, list[Row]]]:
        """Yield lists of at most `size` records after the first `skip`, each with the number of its first record."""
        first = skip
        # Skipped factories are never called: finished articles are not converted again.
        made = (make() for make in islice(self._row_factories(source), skip, None))
        for chunk in cut_rows(((_measure(row), row) for row in made), size, ReadBounds(CHUNK_BYTES)):
            yield first, chunk
            first += len(chunk)

    def _row_factories(self, source: SourceFile) -> Iterator[RowFactory]:
        """Yield a record factory for each article of a file.

        Errors:
            Invalid: the file is damaged, or not of its kind
            Unavailable: an object store does not answer
        """
        try:
            yield from self._articles(source)
        except (OSError, EOFError) as error:
            raise _read_error(source, error) from error

    def _articles(self, source: SourceFile) -> Iterator[RowFactory]:
        kind = self._kind(source)
        if kind == "mediawiki":
            yield from self._pages(source)
        elif kind == "wordpress":
            with _open_packed(source) as stream:
                for story in wordpress_exports.read_posts(stream):
                    yield partial(self._record, story)
        elif kind == "feed":
            with _open_packed(source) as stream:
                # One byte more than allowed, so that a larger feed is noticed.
                data = stream.read(feeds.LARGEST_FEED + 1)
            for story in feeds.read_articles(data):
                yield partial(self._record, story)
        else:
            for row in sources.read_rows(replace(source, format=kind or "jsonl")):
                yield partial(self._row, row)

    def _pages(self, source: SourceFile) -> Iterator[RowFactory]:
        wiki = mediawiki.WikiInfo()
        with _open_packed(source) as stream:
            for page in mediawiki.read_pages(stream, wiki):
                if isinstance(page, bytes) and not mediawiki.is_article_page(page):
                    continue
                yield partial(self._page, page, wiki)

    def _page(self, page: bytes | UnreadableRow, wiki: mediawiki.WikiInfo) -> Row:
        if isinstance(page, UnreadableRow):
            return page
        try:
            return self._build_record(mediawiki.article_from_page(page, wiki))
        except NotAnArticle as error:
            return UnreadableRow(str(error), page[:_KEPT].decode("utf-8", "replace"))
        except (ValueError, RecursionError, MemoryError) as error:
            # the parser of wiki text may fail on one page; the next pages are still read
            return UnreadableRow(
                f"page can't be read: {type(error).__name__}", page[:_KEPT].decode("utf-8", "replace")
            )

    def _row(self, row: Row) -> Row:
        if isinstance(row, UnreadableRow):
            return row
        if tables.is_record(row):
            return {"type": "article", "enable_question_answering": True, **row}
        return self._record(tables.article_from_row(row))

    def _record(self, story: SourceArticle) -> Row:
        try:
            return self._build_record(story)
        except NotAnArticle as error:
            return UnreadableRow(str(error), f"{story.id} {story.title}"[:_KEPT])

    def _build_record(self, story: SourceArticle) -> dict[str, Any]:
        return record_from_article(story, licence=self.licence, topic=self.topic, language=self.language)

    def _kind(self, source: SourceFile) -> Kind | None:
        return self.kind or detect_kind(source)


def _measure(row: Row) -> int:
    """Return about the characters of a record: those of its content."""
    if isinstance(row, UnreadableRow):
        return len(row.text)
    # A record comes as it is in its file; the validation of each row refuses other values later.
    paragraphs = row.get("paragraphs")
    texts = [row.get(name) for name in ("title", "description", "html")]
    texts += paragraphs if isinstance(paragraphs, list) else ()
    return sum(len(text) for text in texts if isinstance(text, str))


def detect_kind(source: SourceFile) -> Kind | None:
    """Return the kind of a file by its name, or by its beginning for XML.

    Errors:
        Invalid, Unavailable: the beginning of the file can't be read
    """
    name = source.path.lower()
    for suffix in sources.PACKED:
        name = name.removesuffix(suffix)
    ending = PurePosixPath(name).suffix
    if ending in _FEEDS:
        return "feed"
    if ending != ".xml":
        return sources.detect_format(source.path)
    try:
        with _open_packed(source) as stream:
            beginning = stream.read(_SNIFF_BYTES)
    except (OSError, EOFError) as error:
        raise _read_error(source, error) from error
    if b"<mediawiki" in beginning:
        return "mediawiki"
    return "wordpress" if wordpress_exports.MARK in beginning else "feed"


def _read_error(source: SourceFile, error: Exception) -> KioskError:
    """Return the error for an unreadable file: permanent for a local file, temporary for an object store."""
    kind = Invalid if source.is_local else Unavailable
    return kind(f"{source.name} can't be read to its end: {error}")


class _PackedStream:
    """A decompressed stream; the standard library reads bz2, because dumps consist of many bz2 streams."""

    def __init__(self, source: SourceFile) -> None:
        if source.path.lower().endswith(".bz2"):
            self._raw = source.files.open_input_file(source.path)
            self._stream: Any = bz2.BZ2File(self._raw)
        else:
            self._raw = None
            self._stream = source.files.open_input_stream(source.path, compression="detect")

    def read(self, size: int) -> bytes:
        data: bytes = self._stream.read(size)
        return data

    def __enter__(self) -> _PackedStream:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()
        if self._raw is not None:
            self._raw.close()


def _open_packed(source: SourceFile) -> _PackedStream:
    return _PackedStream(source)
