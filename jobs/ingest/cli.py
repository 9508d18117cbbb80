"""The options of `kiosk ingest`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cluster.errors import Invalid
from jobs.command_line import WORDS, AsJson, DefaultGroup, build_app

if TYPE_CHECKING:
    from jobs.ingest.pipeline import IngestSpec

Noun = Literal["user", "product", "interaction"]

_MOST = 100_000
EPILOG = """
[bold]Mapping[/]

  A file calls a field by another name: --map FIELD=COLUMN. Without a mapping every column is the field of its name.

  product_id=sku                           a column under another name
  custom_attributes.weight=grams:number    a field inside, and what the value becomes:
                                           number, integer, text, bool, time, list, numbers, paths
  categories=cat|>                         split: `|` between paths, `>` inside a path
  type:=book                               the same value for every row
  price=Preis:number(,)                    a number with a decimal comma
  timestamp=Date:time(%m/%d/%Y %H:%M)      a time in another form (UTC unless it names an offset)
  user_id=CustomerID:integer               whole numbers that a table wrote as 17850.0
  availability=Stock{ja:IN_STOCK,nein:OUT_OF_STOCK}
                                           one value for another
  timestamp=Datum:time(day-first)          dates such as 09.12.2010 19:23; also time(month-first)

  Columns with the name of a field stay, with or without a mapping; --exclude COLUMN leaves one out. Columns that are
  not used are named in a warning.

[bold]Orders[/]

  --orders COLUMN joins the rows with the same order number to one purchase; --orders "same user and time" does so
  without order numbers. --returns refund takes purchases with a negative quantity as refunds.

[bold]Examples[/]

  kiosk ingest orders.csv --noun interaction --app bookshop --dry-run --limit 100
  kiosk ingest orders.csv --noun interaction --app bookshop --guess > orders.map
  kiosk ingest orders.csv --noun interaction --app bookshop --map-file orders.map --orders InvoiceNo --returns refund
  kiosk ingest people.csv --noun user --app bookshop --map user_id=nr --map created_at=since
  kiosk ingest catalog.parquet --noun product --app bookshop --map-file catalog.map
  kiosk ingest s3://bucket/events --noun interaction --app bookshop --at-once 8
  kiosk ingest fields user                 the fields of a noun, what each takes and which are required
  kiosk ingest archive --help              articles for the archive of AI agents

Exit codes: 0 every row is in, 1 some rows were refused, 2 wrong use, 3 Kiosk does not run.
"""


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """The options of one ingest as the user typed them."""

    address: str
    noun: Noun
    app_id: str
    mapping: tuple[str, ...] = ()
    map_file: Path | None = None
    excluded: tuple[str, ...] = ()
    orders: str = ""
    returns: Literal["refuse", "refund"] = "refuse"
    guess: bool = False
    format: Literal["jsonl", "csv", "tsv", "parquet"] | None = None
    delimiter: str = ""
    encoding: str = ""
    dry_run: bool = False
    limit: int = 0
    keep_going: bool = False
    chunk: int | None = None
    at_once: int = 1
    state_dir: Path | None = None
    restart: bool = False
    as_json: bool = False

    def build_order(self) -> IngestSpec:
        """Return the order of an ingest."""
        from jobs.ingest.files.delimited_files import DelimitedFormat
        from jobs.ingest.pipeline import IngestSpec

        return IngestSpec(
            address=self.address,
            noun=self.noun,
            app_id=self.app_id,
            mapping=(*_read_rules(self.map_file), *self.mapping, *self._further_rules()),
            format=self.format,
            chunk=self.chunk or (2_000 if self.noun == "interaction" else 500),
            layout=DelimitedFormat(self.delimiter.replace("\\t", "\t"), self.encoding),
            limit=self.limit,
            keep_going=self.keep_going,
        )

    def _further_rules(self) -> list[str]:
        """Return the rules of options that are not rules.

        Errors:
            Invalid: an option of interactions is given for other records
        """
        from jobs.ingest.mappings.mapping import ORDER_ID, REFUND, RETURNS, SAME_USER_AND_TIME
        from jobs.ingest.mappings.mapping_rules import quote_column

        if self.noun != "interaction" and (self.orders or self.returns == REFUND):
            raise Invalid("--orders and --returns are options of interactions")
        rules = [f"={quote_column(column)}" for column in self.excluded]
        if self.orders == SAME_USER_AND_TIME:
            rules.append(f"{ORDER_ID}:={SAME_USER_AND_TIME}")
        elif self.orders:
            rules.append(f"{ORDER_ID}={quote_column(self.orders)}")
        return [*rules, f"{RETURNS}:={REFUND}"] if self.returns == REFUND else rules


AddressOption = Annotated[
    str,
    typer.Argument(help="A file, a directory (all files below it), or an s3:// or gs:// URI of either."),
]
NounOption = Annotated[Noun, typer.Option(help="What every row is.")]
AppIdOption = Annotated[str, typer.Option("--app", help="The app's id, for example development.")]
MappingOption = Annotated[
    list[str] | None,
    typer.Option("--map", metavar="FIELD=COLUMN", help="A rule of the mapping; as many as needed."),
]
MapFileOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="A file of rules, one a line; lines that begin with # are remarks."),
]
ExcludeOption = Annotated[
    list[str] | None,
    typer.Option("--exclude", metavar="COLUMN", help="A column to leave out; as many as needed."),
]
OrdersOption = Annotated[
    str,
    typer.Option(
        metavar="COLUMN",
        help='Join rows with the same order number to one event; or "same user and time".',
    ),
]
ReturnsOption = Annotated[
    Literal["refuse", "refund"],
    typer.Option(help="What becomes of purchases with a negative quantity."),
]
GuessOption = Annotated[
    bool,
    typer.Option("--guess", help="Print proposed rules for the columns, as a map file, and write nothing."),
]
FormatOption = Annotated[
    Literal["jsonl", "csv", "tsv", "parquet"] | None,
    typer.Option(help="The format, if the name of a file does not tell it."),
]
DelimiterOption = Annotated[
    str, typer.Option(metavar="SIGN", help="The sign between cells; found in the header if left out.")
]
EncodingOption = Annotated[
    str, typer.Option(metavar="NAME", help="The encoding of CSV and TSV, for example cp1252.")
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Show what the first 1,000 rows become, and write nothing.")
]
LimitOption = Annotated[int | None, typer.Option(min=1, max=_MOST, help="Read so many rows at most.")]
KeepGoingOption = Annotated[
    bool,
    typer.Option("--keep-going", help="Read on although none of the first 1,000 rows was accepted."),
]
ChunkOption = Annotated[
    int | None,
    typer.Option(
        min=1, max=_MOST, help="Rows written together; if left out 2,000 interactions or 500 records."
    ),
]
AtOnceOption = Annotated[
    int, typer.Option(min=1, max=_MOST, help="How many files at once, each as a task on Ray.")
]
StateOption = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="The folder of progress and refused rows; `ingest` in the data directory if left out.",
    ),
]
RestartOption = Annotated[
    bool, typer.Option("--restart", help="Forget an earlier run and take every row again.")
]
AsJsonOption = Annotated[bool, typer.Option("--json", help="One JSON object on standard output at the end.")]
FieldsNounOption = Annotated[Noun, typer.Argument(help="The noun.")]


def build_ingest_app(execute: Callable[[IngestOptions, Sequence[str]], int]) -> typer.Typer:
    """Return the commands; `execute` takes the options and the typed arguments, ingests and returns the exit code."""
    app = build_app("Ingest files of records.", group=DefaultGroup)

    @app.command("ADDRESS", epilog=EPILOG)
    def ingest_files(
        context: typer.Context,
        address: AddressOption,
        noun: NounOption,
        app_id: AppIdOption,
        mapping: MappingOption = None,
        map_file: MapFileOption = None,
        exclude: ExcludeOption = None,
        orders: OrdersOption = "",
        returns: ReturnsOption = "refuse",
        guess: GuessOption = False,
        format: FormatOption = None,
        delimiter: DelimiterOption = "",
        encoding: EncodingOption = "",
        dry_run: DryRunOption = False,
        limit: LimitOption = None,
        keep_going: KeepGoingOption = False,
        chunk: ChunkOption = None,
        at_once: AtOnceOption = 1,
        state: StateOption = None,
        restart: RestartOption = False,
        as_json: AsJsonOption = False,
    ) -> None:
        """Ingest users, products or interactions from files of any size: JSON Lines, CSV, TSV or Parquet.

        Files may be compressed. After an interruption the same command goes on where it was. Refused rows are written
        to a file with their reasons and do not stop the ingest, unless none of the first 1,000 rows is accepted.
        """
        options = IngestOptions(
            address, noun, app_id, tuple(mapping or ()), map_file, tuple(exclude or ()), orders, returns, guess,
            format, delimiter, encoding, dry_run, limit or 0,
            keep_going, chunk, at_once, state, restart, as_json,
        )  # fmt: skip
        raise typer.Exit(execute(options, context.meta[WORDS]))

    @app.command("fields")
    def list_fields(
        noun: FieldsNounOption,
        as_json: AsJson = False,
    ) -> None:
        """List the fields of a noun, what each takes and which are required."""
        from jobs.ingest.fields_command import show_fields

        show_fields(noun, as_json=as_json)

    return app


def _read_rules(path: Path | None) -> tuple[str, ...]:
    """Return the rules of a mapping file."""
    if path is None:
        return ()
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"mapping {path} can't be read: {error}") from error
    rules = [line.strip() for line in lines]
    return tuple(rule for rule in rules if rule and not rule.startswith("#"))
