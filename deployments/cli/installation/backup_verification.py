"""The verification of a backup whose chunks are whole, and the results that `kiosk backup` prints."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import asdict, dataclass, field
from functools import partial

from actors.serving.installation_comparison import (
    MOST_SEARCHED,
    build_queries,
    compute_answers,
    describe_difference,
    has_equal_data,
)
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.backup.catalogue import Backup
from cluster.backup.comparison_sample import check_comparable, find_active_users, sample_app
from cluster.backup.creation import BackupResult
from cluster.backup.restoring import RestoreJob, RestorePlan
from cluster.backup.verification import ComparedRecords, SampleVerification, compare_records
from cluster.backup_pace import Progress, ignore_progress
from cluster.clock import iso_ms
from cluster.errors import KioskError
from cluster.store.connect import OpenStores
from deployments.cli.framework import screen
from deployments.cli.framework.installation import read_clock_ms

Place = tuple[OpenStores, ArtifactStore]
_MOST_SHOWN = 20


@dataclass
class Verification:
    """What was found out about a backup."""

    backup: Backup
    damaged: list[str]
    "Chunks that are missing or differ from their checksum."
    records: ComparedRecords | None = None
    "None: not restored."
    answered: int = 0
    "Answers that the restored installation gave."
    compared: int = 0
    different: list[str] = field(default_factory=list)
    "Queries with another answer, and what differs."
    apps: int = 0
    "Apps with products and an engine, whose answers can be compared."
    not_compared: dict[str, str] = field(default_factory=dict)
    "App -> reason."
    require_answers: bool = False
    "Whether an app whose answers were not compared counts as a failure."

    @property
    def is_good(self) -> bool:
        """Return whether nothing is damaged and nothing differs."""
        if self.require_answers and (self.records is None or self.not_compared):
            return False
        return not (self.damaged or self.different or (self.records is not None and self.records.different))

    @property
    def summary(self) -> str:
        """Return how many answers of how many apps were compared."""
        apps = f"{self.apps - len(self.not_compared)} of {self.apps} {'app' if self.apps == 1 else 'apps'}"
        return (
            f"{self.answered:,} answers computed; {self.compared:,} answers of {apps} compared with the installation, "
            f"{len(self.different)} differ"
        )


async def restore_and_compare(
    verification: Verification,
    plan: RestorePlan,
    target: ArtifactStore,
    open_source: Callable[[], AbstractAsyncContextManager[Place]],
    scratch: AbstractAsyncContextManager[Place],
    most: int,
    progress: Progress,
) -> None:
    """Restore a backup beside, compare up to `most` records and as many answers, and note what differs."""
    async with AsyncExitStack() as stack:
        stores, into = restored = await stack.enter_async_context(scratch)
        await RestoreJob(plan, target, stores, into, read_clock_ms(), progress).run()
        verification.records = await compare_records(target, plan.backup, stores, most)
        source: Place | None = None
        reason = ""
        try:
            source = await stack.enter_async_context(open_source())
        except KioskError as error:
            reason = error.message
        await compare_answers(verification, target, restored, source, most, progress, reason=reason)


async def compare_answers(
    verification: Verification,
    target: ArtifactStore,
    restored: Place,
    source: Place | None,
    most: int,
    progress: Progress = ignore_progress,
    *,
    reason: str = "",
) -> None:
    """Compute up to `most` answers of a restored installation, and compare them with those of the source at the cut.

    Without a source, `reason` says why.
    """
    app_ids = sorted(verification.backup.facts.apps)
    for number, app_id in enumerate(app_ids):
        left = -(-(most - verification.answered) // (len(app_ids) - number))
        if left > 0:
            await _compare_app(verification, app_id, target, restored, source, reason, left)
            progress("answers", verification.answered)


async def _compare_app(
    verification: Verification,
    app_id: str,
    target: ArtifactStore,
    restored: Place,
    source: Place | None,
    reason: str,
    most: int,
) -> None:
    stores, into = restored
    facts = verification.backup.facts
    cut = facts.apps[app_id]
    # chosen in the source, which still has what a restore may have lost
    sample = await sample_app(stores if source is None else source[0], app_id, most)
    engine_ids = sorted(engine.engine_id for engine in await stores.engines.all(app_id))
    if not sample.titles or not engine_ids:
        return
    verification.apps += 1
    user_keys = sample.user_keys
    if source is not None:
        artifacts, reason = await check_comparable(*source, into, target, verification.backup, app_id)
        expected_place = (source[0], artifacts)
        # The answers to these users changed since the backup, so a difference would prove nothing.
        active = await find_active_users(source[0], stores, app_id, cut, user_keys)
        user_keys = tuple(user_key for user_key in user_keys if user_key not in active)
    searches = await stores.records.count(app_id, "product") <= MOST_SEARCHED
    queries = build_queries(app_id, engine_ids, user_keys, sample.titles, most, searches=searches)
    compute = partial(compute_answers, queries=queries, until=cut.end, now_ms=facts.cut_ms)
    if source is None or reason:
        verification.answered += len((await compute(stores, into))[0])
        verification.not_compared[app_id] = reason
        return
    if await has_equal_data(app_id, restored, expected_place, cut.end):
        # a second load would read the same bytes
        answers, expected = await compute(stores, into, equal=[source[0]])
    else:
        answers = (await compute(*restored))[0]
        expected = (await compute(*expected_place))[0]
    verification.answered += len(answers)
    # Looked up again, because the source serves on while it is compared.
    if moved := (await check_comparable(*source, into, target, verification.backup, app_id))[1]:
        verification.not_compared[app_id] = moved
        return
    late = await find_active_users(source[0], stores, app_id, cut, user_keys)
    for query, answer, other in zip(queries, answers, expected, strict=True):
        if late.isdisjoint(query.user_keys):
            verification.compared += 1
            if answer != other:
                subject = query.user_keys or query.anchors or (query.search.text if query.search else "",)
                name = f"{app_id}/{query.engine_id} {query.kind} {' '.join(subject)}"
                verification.different.append(f"{name} ({describe_difference(answer, other)})")


def print_backup(result: BackupResult, sample: SampleVerification | None, *, as_json: bool) -> None:
    """Print a backup that was written, and the verification of its sample; None: it was not verified."""
    facts = result.facts
    if as_json:
        verified = None if sample is None else {**asdict(sample), "good": sample.is_good}
        screen.print_json(
            {
                "backup": facts.backup_id,
                "as_of": iso_ms(facts.cut_ms),
                "keys": facts.keys,
                "artifacts": len(facts.artifacts),
                "bytes": result.size,
                "new_bytes": result.new_bytes,
                "chunks": result.chunks,
                "new_chunks": result.new_chunks,
                "fingerprint": facts.fingerprint,
                "verified": verified,
            }
        )
        return
    lines = [
        f"backup {facts.backup_id}, as of {iso_ms(facts.cut_ms)}",
        f"{facts.keys:,} keys and {len(facts.artifacts):,} artifact files, {result.size / 1e6:,.1f} MB, "
        f"{result.new_bytes / 1e6:,.1f} MB of it new",
    ]
    if sample is None:
        lines.append("not verified; `kiosk backup verify` restores it beside and compares everything")
    else:
        problems = [f"not verified: {sample.error}"] if sample.error else []
        problems += [f"damaged: {name}" for name in sample.damaged[:_MOST_SHOWN]]
        problems += [f"differs: {name}" for name in sample.different[:_MOST_SHOWN]]
        lines.append(
            f"verified a sample: {sample.chunks:,} of {sample.of:,} chunks read, {len(sample.damaged)} damaged; "
            f"{sample.keys:,} keys restored beside, {len(sample.different)} differ"
        )
        lines += problems
    screen.print_lines(*lines)


def print_verification(verification: Verification, *, as_json: bool) -> None:
    """Print what was found out."""
    records = verification.records
    backup_id = verification.backup.facts.backup_id
    chunks = len(verification.backup.chunks)
    if as_json:
        screen.print_json(
            {
                "backup": backup_id,
                "chunks": chunks,
                "damaged": verification.damaged,
                "restored": records is not None,
                "compared": records.compared if records else 0,
                "different": list(records.different) if records else [],
                "answers": {
                    "answered": verification.answered,
                    "compared": verification.compared,
                    "different": verification.different,
                    "apps": verification.apps,
                    "apps_compared": verification.apps - len(verification.not_compared),
                    "not_compared": verification.not_compared,
                },
            }
        )
        return
    lines = [f"backup {backup_id}: {chunks:,} chunks read, {len(verification.damaged)} damaged"]
    lines += [f"damaged: {name}" for name in verification.damaged[:_MOST_SHOWN]]
    if records is None:
        screen.print_lines(*lines, "not restored")
        return
    lines += [f"differs: {name}" for name in (*records.different, *verification.different)[:_MOST_SHOWN]]
    lines += [
        f"restored beside; {records.compared:,} records compared byte by byte, {len(records.different)} differ",
        verification.summary,
    ]
    lines += [
        f"answers of {app_id} not compared: {reason}" for app_id, reason in verification.not_compared.items()
    ]
    screen.print_lines(*lines)
