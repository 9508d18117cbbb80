"""`kiosk rules`: the stored boost rules of an engine."""

from __future__ import annotations

import typer

from cluster.ids import DEFAULT_ENGINE
from deployments.cli.framework.operation_commands import OperationCommand, add_commands
from deployments.operations.content import rules

app = typer.Typer(help="Stored boost rules: raise, pin, bury or remove products.", no_args_is_help=True)

PUT_EPILOG = """
[bold]Examples[/]

  kiosk rules put development rules.json
  kiosk rules put development -                 read standard input

The file holds one rule, an array of rules, or an object with "rules". A rule:

  {"name": "knives first", "boost_fq": "brand:Birk", "position": [1, 4], "api_names": ["user_to_trending"]}
  {"name": "no tea", "boost": \\[{"field": "categories", "query": "Tea", "action": "remove"}]}
  {"name": "for guests", "boost_fq": "tags:gift", "boosting_tags": ["guest"], "context": {"channel": ["app"]}}
"""
DELETE_EPILOG = """
[bold]Example[/]

  kiosk rules delete development "knives first"
"""

COMMANDS = (
    OperationCommand("list", "rules.list", options={"engine_id": "--engine"}),
    OperationCommand("put", "rules.put", PUT_EPILOG, {"engine_id": "--engine", "rules": "FILE"}),
    OperationCommand(
        "delete",
        "rules.delete",
        DELETE_EPILOG,
        {"engine_id": "--engine", "names": "RULES"},
        defaults={"engine_id": DEFAULT_ENGINE},
    ),
)
add_commands(app, COMMANDS, rules)
