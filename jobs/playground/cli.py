"""The options of `python -m jobs.playground`."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import orjson
import typer

from cluster.errors import Unavailable
from jobs.command_line import build_app
from jobs.playground import driver

app = build_app()


@app.command()
def load(
    redis_url: Annotated[
        str, typer.Option(help="The address of Redis; KIOSK_REDIS_URL if it is left out.")
    ] = "",
    app_id: Annotated[str, typer.Option("--app", help="The app to fill.")] = "playground",
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write upload bodies into this folder instead.")
    ] = None,
    now_ms: Annotated[
        int | None, typer.Option(help="With --out: the moment the times are relative to.")
    ] = None,
) -> None:
    """Load the sample data into an app, or write it as upload bodies; one JSON object says how much."""
    try:
        done: object = (
            driver.write_sample(out, now_ms) if out else asdict(driver.load_into_app(redis_url, app_id))
        )
    except ValueError as error:
        raise Unavailable(str(error)) from error
    sys.stdout.write(orjson.dumps(done).decode() + "\n")
