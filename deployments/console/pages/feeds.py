"""Page of feeds: what is polled, the result of the last poll with its errors, and forms to change it."""

from __future__ import annotations

from starlette.responses import Response

from cluster.errors import Invalid
from deployments.console.argument_form import arguments_from_form, list_inputs
from deployments.console.page import NavigationEntry, Page
from deployments.console.request import ConsoleRequest, path_of
from deployments.operations.content.feeds import AddFeed

FEEDS = "/apps/{app_id}/feeds"
_IN_ADDRESS = frozenset({"app_id"})
VERBS = {
    "pause": "feeds.pause_done",
    "resume": "feeds.resume_done",
    "poll": "feeds.poll_done",
    "remove": "feeds.remove_done",
}
"What may happen to a feed -> text of the notice."


async def show_feeds(request: ConsoleRequest) -> Response:
    """Show the feeds of an app."""
    views = (await request.perform("feeds.list", app_id=request.app_id)).feeds
    feeds = [{**view.to_dict(), "polled_at": view.state.ended_at} for view in views]
    return request.page("imports/feeds.html", feeds=feeds, inputs=list_inputs(AddFeed, exclude=_IN_ADDRESS))


async def add_feed(request: ConsoleRequest) -> Response:
    """Add a feed."""
    given = arguments_from_form(AddFeed, request.form, exclude=_IN_ADDRESS)
    view = await request.perform("feeds.add", app_id=request.app_id, **given)
    return _back(request, "feeds.add_done", view.feed.name)


async def change_feed(request: ConsoleRequest) -> Response:
    """Pause, resume, poll or remove a feed.

    Errors:
        Invalid: the form names no change
    """
    verb = request.form.get("verb", "")
    feed = request.form.get("feed", "")
    if verb not in VERBS:
        raise Invalid("choose what is to happen to the feed")
    await request.perform(f"feeds.{verb}", app_id=request.app_id, feed=feed)
    return _back(request, VERBS[verb], feed)


def _back(request: ConsoleRequest, text: str, feed: str) -> Response:
    path = path_of(FEEDS, app_id=request.app_id).removeprefix("/console")
    return request.redirect(path, request.services.text(text, feed=feed))


PAGES = (
    Page(FEEDS, show_feeds),
    Page(FEEDS, add_feed, role="editor", methods=("POST",)),
    Page(FEEDS + "/change", change_feed, role="editor", methods=("POST",), shown_on=FEEDS, example="-"),
)
NAVIGATION = (NavigationEntry("feeds.nav", FEEDS, icon="list"),)
