"""`kiosk feeds`: addresses of a publisher that are polled for articles."""

from __future__ import annotations

import typer

from deployments.cli.framework.operation_commands import OperationCommand, add_commands
from deployments.operations.content import feeds

app = typer.Typer(help="Feeds of a publisher, polled for articles.", no_args_is_help=True)

ADD_EPILOG = """
[bold]Examples[/]

  kiosk feeds add news latest https://news.example.com/rss.xml
  kiosk feeds add news sitemap https://news.example.com/news-sitemap.xml --every-minutes 5
  kiosk feeds add news blog https://blog.example.com/feed.json --reads-pages --topic Science --language en

RSS, Atom, JSON Feed, sitemaps, sitemap indexes and exports of WordPress are recognised by their content.
"""
_FEED = {"feed": "FEED"}
COMMANDS = (
    OperationCommand("add", "feeds.add", ADD_EPILOG, {"feed": "FEED", "address": "ADDRESS"}),
    OperationCommand("list", "feeds.list"),
    OperationCommand("show", "feeds.show", options=_FEED),
    OperationCommand("pause", "feeds.pause", options=_FEED),
    OperationCommand("resume", "feeds.resume", options=_FEED),
    OperationCommand("poll", "feeds.poll", options=_FEED),
    OperationCommand("remove", "feeds.remove", options=_FEED),
)
add_commands(app, COMMANDS, feeds)
