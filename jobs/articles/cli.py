"""The options of `kiosk ingest archive`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from jobs.articles.source_article import DEFAULT_LICENCE
from jobs.command_line import WORDS, AsJson

if TYPE_CHECKING:
    from jobs.articles.article_files import ArchiveReading
    from jobs.ingest.pipeline import IngestSpec

_MOST = 100_000


@dataclass(frozen=True, slots=True)
class ArchiveImportOptions:
    """The options of one import of an archive."""

    app_id: str
    address: str
    "Address of the archive; empty: only build the passages."
    reading: ArchiveReading
    chunk: int = 200
    state_dir: Path | None = None
    restart: bool = False
    passages: bool = True
    embedder: str = ""
    "`built-in`, `imported`, or empty: imported if there is one."
    as_json: bool = False
    "Whether standard output is reserved for a JSON object."

    def ingest_order(self) -> IngestSpec:
        """Return the order of the articles' ingest."""
        from jobs.ingest.pipeline import IngestSpec

        return IngestSpec(address=self.address, noun="product", app_id=self.app_id, chunk=self.chunk)


AppIdOption = Annotated[str, typer.Option("--app", help="The app's id, for example development.")]
AddressOption = Annotated[
    str,
    typer.Argument(
        help="A file, a directory or a URI: MediaWiki dumps (.xml, .xml.bz2), exports of WordPress, RSS "
        "and Atom, JSON Lines, CSV, Parquet. If it is left out, only the passages are built."
    ),
]
KindOption = Annotated[
    Literal["mediawiki", "wordpress", "feed", "jsonl", "csv", "tsv", "parquet"] | None,
    typer.Option(help="The kind of the files, if names and beginnings do not tell it."),
]
LicenceOption = Annotated[str, typer.Option(help="The licence of articles that do not name one.")]
TopicOption = Annotated[
    str, typer.Option(help="The topic of articles that do not name one, for example Science.")
]
LanguageOption = Annotated[
    str, typer.Option(help="The language of articles that do not name one, for example en.")
]
ChunkOption = Annotated[int, typer.Option(min=1, max=_MOST, help="Articles written together.")]
StateOption = Annotated[
    Path | None, typer.Option(metavar="DIR", help="The folder of progress and refused articles.")
]
RestartOption = Annotated[bool, typer.Option("--restart", help="Forget an interrupted run.")]
EmbedderOption = Annotated[
    Literal["built-in", "imported"] | None,
    typer.Option(
        help="What makes the vectors: trained on the articles, or the encoder imported last (if there is one)."
    ),
]
NoPassagesOption = Annotated[
    bool, typer.Option("--no-passages", help="Leave the building of passages to a later run.")
]


def add_archive_command(
    app: typer.Typer, name: str | None, execute: Callable[[ArchiveImportOptions, Sequence[str]], int]
) -> None:
    """Add the command to a command line; `execute` takes the options and the typed arguments and returns
    the exit code.
    """

    @app.command(name)
    def archive(
        context: typer.Context,
        app_id: AppIdOption,
        address: AddressOption = "",
        kind: KindOption = None,
        licence: LicenceOption = DEFAULT_LICENCE,
        topic: TopicOption = "",
        language: LanguageOption = "",
        chunk: ChunkOption = 200,
        state: StateOption = None,
        restart: RestartOption = False,
        embedder: EmbedderOption = None,
        no_passages: NoPassagesOption = False,
        as_json: AsJson = False,
    ) -> None:
        """Import an archive of articles into an app and build the passages that search and answers use."""
        from jobs.articles.article_files import ArchiveReading

        options = ArchiveImportOptions(
            app_id=app_id,
            address=address,
            reading=ArchiveReading(kind, licence, topic, language),
            chunk=chunk,
            state_dir=state,
            restart=restart,
            passages=not no_passages,
            embedder=embedder or "",
            as_json=as_json,
        )
        raise typer.Exit(execute(options, context.meta.get(WORDS, ())))
