"""Use cases on what was set aside: list and show entries, give them to the intake again, drop them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import orjson
from pydantic import Field

from actors.intake.quarantine_replay import QuarantineReplayer, ReplayResult, find_obstacle
from cluster.admin.refused_rows import RefusedRows
from cluster.clock import iso_ms
from cluster.errors import Invalid, NotFound, ReadOnly
from cluster.records.intake import QuarantineEntry
from cluster.store.installation.quarantine_store import QuarantineStore
from deployments.operations.framework.app_lookup import require_app
from deployments.operations.framework.operation import OfApp, operation
from deployments.operations.framework.result_table import PlainResult, ResultLines, ResultTable
from deployments.operations.framework.services import AdminServices

INSTALLATION = "@installation"
"In place of an app: damaged apps, keys, accounts and registrations."
KINDS = ("record", "batch", "change", "erasure", "row")
Ids = Annotated[
    tuple[str, ...], Field(max_length=10_000, description="Ids of entries, as the list names them.")
]
_EVERY = Field(False, description="All entries (of the kind), in place of ids.")
_KIND = Field("", max_length=20, description="Only record, batch, change, erasure or row.")


class ListEntries(OfApp):
    """Which entries."""

    kind: str = _KIND
    limit: int = Field(50, ge=1, le=1_000_000)


class OfEntry(OfApp):
    """One entry."""

    entry_id: str = Field(min_length=1, max_length=1_000, description="Id of the entry.")


class ChooseEntries(OfApp):
    """Entries by id, or all of them."""

    entry_ids: Ids = ()
    every: bool = _EVERY
    kind: str = _KIND


class ReplayEntries(ChooseEntries):
    """Which entries to replay, and how."""

    overwrite: bool = Field(False, description="Replace what stands in the store.")
    damaged: bool = Field(False, description="Also what has a wrong checksum.")


@dataclass(frozen=True, slots=True)
class EntryList:
    """Entries, newest first, and how many there are in all."""

    app_id: str
    total: int
    newest: tuple[QuarantineEntry, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the entries for JSON, without their payloads."""
        newest = [describe_entry(entry) for entry in self.newest]
        return {"app": self.app_id, "entries": self.total, "newest": newest}

    def to_lines(self) -> ResultLines:
        """Return a table of the entries, and how many are not in it."""
        rows = [
            (
                entry.entry_id,
                " ".join(filter(None, (entry.kind, entry.noun, entry.name[:60]))),
                iso_ms(entry.at)[:19] if entry.at else "-",
                entry.reason[:200],
            )
            for entry in self.newest
        ]
        table = ResultTable(("id", "what", "when", "why"), rows, "Nothing is set aside.")
        others = self.total - len(self.newest)
        return (table, f"{others:,} more; see --limit and --kind.") if others else (table,)


@dataclass(frozen=True, slots=True)
class EntryDetails:
    """One entry with its payload."""

    entry: QuarantineEntry

    def to_dict(self) -> dict[str, Any]:
        return {**describe_entry(self.entry), "payload": self.entry.payload.decode("utf-8", "replace")}

    def to_lines(self) -> ResultLines:
        """Return the facts of the entry, then its payload, indented if it is JSON."""
        facts = [f"{label}: {value}" for label, value in describe_entry(self.entry).items() if value != ""]
        try:
            payload = orjson.dumps(orjson.loads(self.entry.payload), option=orjson.OPT_INDENT_2)
        except orjson.JSONDecodeError:
            payload = self.entry.payload
        return (*facts, *payload.decode("utf-8", "replace").splitlines())


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """What became of replayed entries."""

    app_id: str
    results: tuple[tuple[QuarantineEntry, ReplayResult], ...]

    @property
    def replayed(self) -> int:
        """Return how many were applied."""
        return Counter(result.status for _, result in self.results)["replayed"]

    def to_dict(self) -> dict[str, Any]:
        """Return the report for JSON."""
        results = [
            {"id": entry.entry_id, "status": result.status, "reason": result.reason}
            for entry, result in self.results
        ]
        return {
            "app": self.app_id,
            "replayed": self.replayed,
            "entries": len(self.results),
            "results": results,
        }


@operation("quarantine.list", "GET", "/apps/{app_id}/quarantine", "analyst")
async def list_entries(services: AdminServices, given: ListEntries) -> EntryList:
    """List what was set aside, newest first."""
    entries = await read_entries(services, given.app_id, given.kind)
    newest = sorted(entries, key=lambda entry: -entry.at)[: given.limit]
    return EntryList(given.app_id, len(entries), tuple(newest))


@operation("quarantine.get", "GET", "/apps/{app_id}/quarantine/{entry_id}", "analyst")
async def get_entry(services: AdminServices, given: OfEntry) -> EntryDetails:
    """Show an entry that was set aside whole."""
    entries = await read_entries(services, given.app_id)
    (entry,) = select_entries(entries, [given.entry_id], every=False)
    return EntryDetails(entry)


@operation("quarantine.replay", "POST", "/apps/{app_id}/quarantine/replay", "editor")
async def replay_entries(services: AdminServices, given: ReplayEntries) -> ReplayReport:
    """Give entries that were set aside to the intake again.

    One after the other; applied ones leave the quarantine.

    Errors:
        ReadOnly: the app takes no writes
    """
    entries = await read_entries(services, given.app_id, given.kind)
    chosen = select_entries(entries, given.entry_ids, every=given.every)
    if given.app_id != INSTALLATION:
        app = (await services.stores.access.read_all()).apps[given.app_id]
        if app.read_only:
            raise ReadOnly("this app is read-only, so nothing is replayed into it")
    replayer = QuarantineReplayer(services.stores, given.app_id, services.clock)
    done = []
    for entry in chosen:
        result = await replayer.replay(entry, overwrite=given.overwrite, damaged=given.damaged)
        # One by one: when a replay is interrupted, the entries that were applied have left already.
        if result.is_removable:
            await remove_entries(services, given.app_id, [entry], "replayed")
        done.append((entry, result))
    return ReplayReport(given.app_id, tuple(done))


@operation("quarantine.drop", "POST", "/apps/{app_id}/quarantine/drop", "editor")
async def drop_entries(services: AdminServices, given: ChooseEntries) -> PlainResult:
    """Remove entries that were set aside for good."""
    entries = await read_entries(services, given.app_id, given.kind)
    chosen = select_entries(entries, given.entry_ids, every=given.every)
    await remove_entries(services, given.app_id, chosen, "dropped")
    return PlainResult({"app": given.app_id, "dropped": len(chosen)})


async def read_entries(services: AdminServices, app_id: str, kind: str = "") -> list[QuarantineEntry]:
    """Return what was set aside in an app, or in the installation.

    Errors:
        NotFound: there is no such app
        Invalid: there is no such kind
    """
    if kind and kind not in KINDS:
        raise Invalid(f"there is no kind {kind!r}; choose from {', '.join(KINDS)}")
    store: QuarantineStore = services.stores.quarantine
    if app_id == INSTALLATION:
        entries = await store.read("")
    else:
        await require_app(services.stores, app_id)
        entries = await store.read(app_id)
        rows = _refused_rows(services)
        if rows is not None:
            entries += await asyncio.to_thread(rows.entries, app_id)
    return [entry for entry in entries if kind in ("", entry.kind)]


def select_entries(
    entries: Sequence[QuarantineEntry], entry_ids: Sequence[str], *, every: bool
) -> list[QuarantineEntry]:
    """Return the named entries, or all of them.

    Errors:
        Invalid: both or none of the two ways is used
        NotFound: an entry does not exist
    """
    if every == bool(entry_ids):
        raise Invalid("name entries as `kiosk quarantine list` does, or say --all")
    if every:
        return list(entries)
    by_id = {entry.entry_id: entry for entry in entries}
    unknown = [entry_id for entry_id in entry_ids if entry_id not in by_id]
    if unknown:
        raise NotFound(f"there is no entry {unknown[0]}; see `kiosk quarantine list`")
    return [by_id[entry_id] for entry_id in dict.fromkeys(entry_ids)]


async def remove_entries(
    services: AdminServices, app_id: str, entries: Sequence[QuarantineEntry], reason: str
) -> None:
    """Remove entries of the store, and overwrite those of ingests with a reason."""
    kept = [entry.entry_id for entry in entries if entry.source == "store"]
    if kept:
        await services.stores.quarantine.remove("" if app_id == INSTALLATION else app_id, kept)
    marked = [entry.entry_id for entry in entries if entry.source == "ingest"]
    rows = _refused_rows(services)
    if marked and rows is not None:
        await asyncio.to_thread(rows.overwrite_rows, marked, reason)


def describe_entry(entry: QuarantineEntry) -> dict[str, Any]:
    """Return an entry for JSON, without its payload."""
    return {
        **entry.to_dict(),
        "time": iso_ms(entry.at) if entry.at else "",
        "why_not_replayed": find_obstacle(entry),
    }


def _refused_rows(services: AdminServices) -> RefusedRows | None:
    folder = services.config.data_dir
    return None if folder is None else RefusedRows.from_data_dir(folder)
