"""`kiosk cluster status` and `doctor`: an installation seen from any machine that reaches its Redis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from cluster.errors import Unavailable
from deployments.cli.doctor import doctor
from deployments.cli.doctor.cluster_checks import inspect_cluster
from deployments.cli.framework import screen
from deployments.cli.framework.installation import Installation, read_clock_ms
from deployments.operations.insight.installation_checks import Finding

STATUS_EPILOG = """
[bold]Examples[/]

  kiosk cluster status
  kiosk cluster status --url http://10.0.0.1:8000 --url http://10.0.0.2:8000
  kiosk cluster status --json | jq .well

It needs KIOSK_REDIS_URL or KIOSK_REDIS_URL_FILE; with KIOSK_MASTER_KEY_FILE and the artifact store it also compares
those with the installation. Ends with 0 when everything is well, 1 when something is not, 3 without Redis.
"""
DOCTOR_EPILOG = """
[bold]Example[/]

  kiosk cluster doctor --url https://kiosk.example.com
"""
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object.")]
Urls = Annotated[list[str] | None, typer.Option("--url", help="Base URL of the API to ask; may be repeated.")]


def register_commands(app: typer.Typer) -> None:
    """Add the commands to the group `kiosk cluster`."""
    app.command("status", epilog=STATUS_EPILOG)(status)
    app.command("doctor", epilog=DOCTOR_EPILOG)(check)


def status(url: Urls = None, as_json: AsJson = False) -> None:
    """Show leases, engines, the change log, releases and the installation's identity, from any machine.

    Errors:
        Unavailable: no Redis is known
    """
    installation = Installation()
    settings = installation.settings
    if settings.redis_address is None:
        raise Unavailable(
            "no Redis is known: set KIOSK_REDIS_URL or KIOSK_REDIS_URL_FILE, or start `kiosk up`"
        )
    inspection = inspect_cluster(settings, url or [], read_clock_ms())
    well = not any(finding.level == "bad" for finding in inspection.findings)
    if as_json:
        report = {} if inspection.report is None else inspection.report.to_dict()
        parts = [finding.to_dict() for finding in inspection.findings]
        screen.print_json({"well": well, **report, "findings": parts})
    else:
        screen.out().print(build_table(inspection.findings))
        if not well:
            screen.err().print("`kiosk cluster doctor` says what can be done.")
    if not well:
        raise typer.Exit(3 if inspection.report is None else 1)


def build_table(findings: Sequence[Finding]) -> screen.ResponsiveTable:
    """Return a line for each finding."""
    table = screen.build_table("part", "", "", title="Kiosk, as its Redis has it")
    for finding in findings:
        table.add_row(
            finding.check, screen.style_text(finding.level, doctor.STYLES[finding.level]), finding.words
        )
    return table


def check(
    url: Annotated[str, typer.Option(help="Base URL of the API to ask.")] = "", as_json: AsJson = False
) -> None:
    """Check this machine, its Redis and the installation in it, and say what to do."""
    doctor.doctor(url=url, as_json=as_json)
