"""Checks of apps: which of the safe switches are open, and what a stranger gains by each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cluster.records.access import App, AppSettings
from deployments.cli.doctor.finding import Finding, Level


def check_switches(apps: Iterable[App]) -> Iterator[Finding]:
    """Say for each app what its settings leave open; only production is warned of it."""
    for app in apps:
        if app.read_only:
            continue
        check, found = f"app {app.app_id}", list(_list_open(app.settings))
        if not found:
            yield Finding(check, "ok", "its switches leave nothing open that can be closed")
            continue
        words = "; ".join(f"{name}: {gain}" for name, _, gain in found)
        closing = " ".join(f"{name}={value}" for name, value, _ in found if value)
        advice = f"`kiosk apps switch {app.app_id} {closing}` once its pages and servers are ready for it"
        level: Level = "warning" if app.environment == "production" and closing else "ok"
        yield Finding(check, level, f"open: {words}", advice if closing else "")


def _list_open(settings: AppSettings) -> Iterator[tuple[str, str, str]]:
    """List open switches: name, the value that closes it (empty: nobody is urged to), what a stranger gains."""
    if not settings.prove_writers:
        yield "prove_writers", "true", "anybody writes events as any user"
    if settings.typed_user_hash:
        yield "typed_user_hash", "false", "who chooses the id that is signed can pass for another user"
    if not settings.derived_token_key:
        yield (
            "derived_token_key",
            "",
            "a user_hash of a chosen id can be a token, so sign ids of your own only",
        )
    if not settings.strict_user_hash:
        yield "strict_user_hash", "", "whoever knows an anonymous_id reads its history"
    if not settings.keyed_visitor_ids:
        yield "keyed_visitor_ids", "true", "a neighbour computes the default anonymous_id"
    if not settings.token_max_age_h:
        yield "token_max_age_h", "24", "a token without exp is good for ever"
    if not settings.confidential_fields:
        yield "confidential_fields", "margin", "browsers read every product field"
    if settings.address_share >= 1:
        yield "address_share", "0.2", "one visitor can use up the rate of all browsers"
    if not (settings.browser_events and settings.browser_readers):
        yield "browser_events", "100 browser_readers=3", "one request writes for any number of readers"
    if not (settings.questions_per_address and settings.questions_without_proof):
        yield "questions_per_address", "200 questions_without_proof=5000", "strangers ask without end"
    if not settings.provider_tokens_per_day:
        yield "provider_tokens_per_day", "2000000", "strangers spend the language model's budget"
    if settings.publishable_experiments:
        yield "publishable_experiments", "false", "browsers write exposures"
    if settings.bot_rule != "on":
        yield "bot_rule", "on", "robots use the publishable key"
