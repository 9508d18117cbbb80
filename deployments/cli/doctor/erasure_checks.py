"""Checks of what is left of people who were forgotten."""

from __future__ import annotations

from collections.abc import Iterator

from cluster.admin.key_admin import KeyAdmin
from cluster.artifacts.artifact_store import ArtifactStore
from cluster.artifacts.marked_snapshots import find_marked_snapshots
from cluster.errors import HouseError
from cluster.runtime.artifact_access import open_artifact_store
from cluster.store.connect import OpenStores
from deployments.cli.doctor.finding import Finding
from deployments.cli.installation import Installation, read_clock_ms

LATE_MS = 600_000
"An order that is older was not carried out as it should."


def check_erasures(installation: Installation) -> Iterator[Finding]:
    """Orders are carried out, none was lost, and no engine serves what was learned from erased rows."""
    shelf = open_artifact_store(installation.settings)

    async def look(keeping: KeyAdmin, stores: OpenStores) -> list[Finding]:
        found = []
        late_ms = read_clock_ms() - LATE_MS
        late = [erasure for erasure, _ in await stores.erasures.list_orders() if erasure.created_at < late_ms]
        if late:
            names = ", ".join(f"{one.app_id} {one.erasure_id}" for one in late[:5])
            advice = (
                "is the intake at work, and are all segments whole? see supervisor.log for erasure_failed"
            )
            found.append(Finding("erasures", "bad", f"{len(late)} not carried out: {names}", advice))
        for app in await keeping.apps():
            found += await _check_app(app.app_id, shelf, stores)
        return found

    yield from installation.administer(look) or [
        Finding("erasures", "ok", "nothing is left of who was forgotten")
    ]


async def _check_app(app_id: str, shelf: ArtifactStore, stores: OpenStores) -> list[Finding]:
    found = []
    if lost := await stores.erasures.list_lost(app_id):
        advice = "forget again whoever was erased then: `kiosk forget`"
        found.append(
            Finding("erasures", "bad", f"{app_id}: erasures that can't be read: {', '.join(lost)}", advice)
        )
    try:
        marked = {(one.engine_id, one.version): one.erasures for one in find_marked_snapshots(shelf, app_id)}
    except HouseError as error:
        return [*found, Finding("erasures", "warning", f"{app_id}: {error.message}")]
    for engine in await stores.engines.all(app_id):
        if count := marked.get((engine.engine_id, engine.snapshot)):
            words = f"{app_id}/{engine.engine_id} serves a model that learned from rows of {count} erasures"
            advice = f"`kiosk train {app_id}` replaces it; it holds no ids of people"
            found.append(Finding("erasures", "warning", words, advice))
    return found
