"""`kiosk replay`: a list of the log of answers, ranked again as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cluster.errors import NotFound
from deployments.cli.framework.installation import Installation
from deployments.cli.framework.operation_commands import print_result

if TYPE_CHECKING:
    from deployments.operations.insight.replays import AnswerReplayReport

EPILOG = """
[bold]Examples[/]

  kiosk replay 0f8fad5b-d9cb-469f-a165-70867728950e
  kiosk replay 0f8fad5b-d9cb-469f-a165-70867728950e --app bookshop --with no-rule=summer
  kiosk replay 0f8fad5b-d9cb-469f-a165-70867728950e --with snapshot=053040c8
  kiosk replay 0f8fad5b-d9cb-469f-a165-70867728950e --with weight.popular=0

The list is ranked again from the snapshot, rules, experiments, state and draw of its time, and compared with what was
served. With --with, one thing differs: no-rules, no-rule=NAME, no-exploration, snapshot=VERSION or weight.PART=NUMBER.
"""


def replay(
    service_id: Annotated[str, typer.Argument(metavar="SERVICE_ID", help="Id that came with the answer.")],
    name: Annotated[str, typer.Option("--app", help="The app; default: all are searched.")] = "",
    change: Annotated[str, typer.Option("--with", help="What to change.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Rank a served list again as it was; say that it is equal, or what differs and why."""
    installation = Installation()
    app_ids = [name] if name else [app.app_id for app in installation.perform("apps.list").apps]
    for app_id in app_ids:
        try:
            report: AnswerReplayReport = installation.perform(
                "answers.replay", app_id=app_id, service_id=service_id, change=change
            )
        except NotFound:
            if app_id == app_ids[-1]:
                raise
            continue
        print_result(report, as_json=as_json)
        return
    raise NotFound("this installation has no app yet")
