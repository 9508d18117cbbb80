"""`kiosk sbom`: the bill of materials of this installation."""

from __future__ import annotations

import json
import sys
import uuid
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated

import typer

from cluster.errors import Invalid
from cluster.local.bill_of_materials import build_bill
from deployments.cli.framework import screen

EPILOG = """
[bold]Examples[/]

  kiosk sbom > sbom.cdx.json
  kiosk sbom --out sbom.cdx.json

CycloneDX 1.6 as JSON: each Python package with version, licence and the hashes of the lock, and the servers that come
inside packages. Needs no running installation and no network.
"""


def sbom(
    out: Annotated[Path | None, typer.Option(help="Write to this file; default: standard output.")] = None,
) -> None:
    """Write a bill of materials (CycloneDX) of the installed packages and servers."""
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    text = json.dumps(build_bill(now, str(uuid.uuid4())), indent=2) + "\n"
    if out is None:
        sys.stdout.write(text)
        return
    try:
        out.write_text(text, "utf-8")
    except OSError as error:
        raise Invalid(f"{out} can't be written: {error.strerror}; choose another file with --out") from error
    screen.err().print(f"Written to {out}.")
