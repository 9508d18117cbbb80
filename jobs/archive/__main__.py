"""kiosk ingest archive <file, directory or URI> --app development; without an address only the passages are built."""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import sys
from pathlib import Path

from rich.console import Console

from actors.answers.shelf import PassageShelf
from actors.answers.writing import Meaning
from actors.language.encoder import SHARE, find_encoder
from cluster.artifacts.segments import SegmentShelf
from cluster.artifacts.shelf import Shelf
from cluster.clock import SystemClock
from cluster.errors import HouseError, Invalid
from cluster.settings import Settings
from cluster.store.connect import open_stores
from cluster.store.ports import Stores
from jobs.archive.passages import build_passages
from jobs.archive.reading import KINDS, ArchiveReading
from jobs.archive.story import DEFAULT_LICENCE
from jobs.ingest.display import Display
from jobs.ingest.pipeline import Order, Report, ingest


def main() -> int:
    """Parse arguments and ingest; 0 when everything is in, 1 when some was refused, 2 when it could not be done."""
    arguments = _arguments()
    settings = Settings()
    if settings.redis_url is None:
        print("no Redis is known: start the system first, or set KIOSK_REDIS_URL", file=sys.stderr)  # noqa: T201
        return 2
    try:
        report = asyncio.run(_run(arguments, settings, settings.redis_url.get_secret_value()))
    except HouseError as error:
        print(f"ingest stopped: {error.message}", file=sys.stderr)  # noqa: T201
        return 2
    return 1 if report is not None and (report.refused or report.failed) else 0


async def _run(arguments: argparse.Namespace, settings: Settings, url: str) -> Report | None:
    report = None
    segments = SegmentShelf(Shelf.open(settings.shelf_dir))
    async with open_stores(url, slow_s=10.0) as stores:
        if arguments.address:
            report = await _ingest(arguments, settings, stores, segments)
        if not arguments.no_passages:
            await _build(arguments, settings, stores, segments)
    return report


async def _ingest(
    arguments: argparse.Namespace, settings: Settings, stores: Stores, segments: SegmentShelf
) -> Report:
    reading = ArchiveReading(arguments.kind, arguments.licence, arguments.topic, arguments.language)
    # another licence or topic makes other records, so such a run is another run
    mark = hashlib.sha256(repr(reading).encode()).hexdigest()[:8]
    order = Order(address=arguments.address, noun="product", app_id=arguments.app, chunk=arguments.chunk)
    state_dir = (arguments.state or settings.data_dir / "ingest") / f"archive-{mark}"
    with Display() as display:
        report = await ingest(
            order,
            stores,
            state_dir=state_dir,
            segments=segments,
            restart=arguments.restart,
            watch=display.show,
            files=reading,
        )
    display.end(report)
    return report


async def _build(
    arguments: argparse.Namespace, settings: Settings, stores: Stores, segments: SegmentShelf
) -> None:
    console = Console(stderr=True)
    encoder = find_encoder(settings.data_dir / "models") if arguments.embedder != "built-in" else None
    if arguments.embedder == "imported" and encoder is None:
        raise Invalid("no encoder was imported; see `kiosk models import --help`")
    with console.status("building passages") as status:
        manifest = await build_passages(
            arguments.app,
            stores,
            segments,
            PassageShelf(settings.shelf_dir),
            SystemClock(),
            meaning=Meaning(encoder, SHARE) if encoder is not None else None,
            watch=lambda stage, count: status.update(f"building passages: {stage} {count:,}"),
        )
    facts = manifest.facts
    console.print(
        f"{facts['passages']:,} passages of {facts['documents']:,} articles, by {facts['embedder']}"
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="kiosk ingest archive",
        description="Bring an archive of articles into an app and build the passages it is searched by.",
    )
    parser.add_argument(
        "address",
        nargs="?",
        help="a file, a directory or a URI: MediaWiki dumps (.xml, .xml.bz2), RSS and Atom, JSON Lines, CSV, "
        "Parquet; left out: only build the passages",
    )
    parser.add_argument("--app", required=True, help="the app's id, for example development")
    parser.add_argument("--kind", choices=KINDS, help="when names and beginnings do not tell")
    parser.add_argument(
        "--licence", default=DEFAULT_LICENCE, help=f"of articles that do not say ({DEFAULT_LICENCE})"
    )
    parser.add_argument("--topic", default="", help="of articles that do not say, for example Science")
    parser.add_argument("--language", default="", help="of articles that do not say, for example en")
    parser.add_argument("--chunk", type=int, default=200, help="articles written together")
    parser.add_argument("--state", type=Path, help="where progress and refused articles are kept")
    parser.add_argument("--restart", action="store_true", help="forget an interrupted run")
    parser.add_argument(
        "--embedder",
        choices=("built-in", "imported"),
        help="who makes the vectors: trained on the articles, or the encoder imported last (when there is one)",
    )
    parser.add_argument("--no-passages", action="store_true", help="leave the building to a later run")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
