"""Page of feeds: what is polled, the result of the last poll with its errors, and forms to change it."""

from __future__ import annotations

from starlette.responses import Response

from cluster.errors import Invalid
from deployments.console.argument_form import list_inputs, operation_page
from deployments.console.page import FormPage, NavigationEntry, Page
from deployments.console.request import ConsoleRequest
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
    views = (await request.perform("feeds.list")).feeds
    feeds = [{**view.to_dict(), "polled_at": view.state.ended_at} for view in views]
    return request.page("imports/feeds.html", feeds=feeds, inputs=list_inputs(AddFeed, exclude=_IN_ADDRESS))


async def change_feed(request: ConsoleRequest) -> Response:
    """Pause, resume, poll or remove a feed.

    Errors:
        Invalid: the form names no change
    """
    verb = request.form.get("verb", "")
    feed = request.form.get("feed", "")
    if verb not in VERBS:
        raise Invalid("choose what is to happen to the feed")
    await request.perform(f"feeds.{verb}", feed=feed)
    return request.redirect(FEEDS, VERBS[verb], feed=feed)


PAGES = (
    Page(FEEDS, show_feeds),
    operation_page(FEEDS, "feeds.add", FEEDS, "feeds.add_done", role="editor"),
    FormPage(FEEDS + "/change", change_feed, role="editor", shown_on=FEEDS),
)
NAVIGATION = (NavigationEntry("feeds.nav", FEEDS, icon="list"),)
