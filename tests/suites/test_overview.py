"""The overview of an installation over a real Redis: findings as `kiosk doctor` words them, for administrators."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.clock import SystemClock
from cluster.crypto import Vault
from cluster.errors import Forbidden
from cluster.records.apps import App
from cluster.records.question import LATE_RECHECK
from cluster.store import keys
from cluster.store.connect import OpenStores
from cluster.store.data.change_log import Follower
from deployments.operations.framework.operation import Arguments
from deployments.operations.framework.principal import Principal
from deployments.operations.framework.services import AdminConfig, AdminServices
from deployments.operations.insight.installation_checks import check_lease, check_redis_memory
from deployments.operations.insight.overview import Overview, read_overview
from tests.fakes.archive_oauth import MASTER
from tests.fakes.console import no_artifacts

pytestmark = pytest.mark.redis


async def _read(stores: OpenStores, data_dir: Path, principal: Principal) -> Overview:
    services = AdminServices(
        stores, Vault(MASTER), SystemClock(), no_artifacts, config=AdminConfig(data_dir=data_dir)
    )
    return await read_overview(services.for_principal(principal), Arguments())


async def test_a_missing_data_directory_hides_nothing_and_breaks_nothing(
    redis_stores: OpenStores, tmp_path: Path
) -> None:
    await redis_stores.server.execute_slow("SET", keys.lease("intake"), "node-1", "PX", "60000")
    ada = Principal("ada", "usr-ada", "console", is_administrator=True)
    overview = await _read(redis_stores, tmp_path / "gone", ada)
    findings = {finding.check: finding for finding in overview.findings}
    (facts,) = await redis_stores.infos("memory")
    assert "GiB free" in findings["disk"].words
    assert findings["redis memory"].level == check_redis_memory(facts).level
    assert findings["lease trainer"] == check_lease("trainer", "", 0)
    assert findings["lease intake"].words.startswith("held by node-1, ")
    assert overview.level == "bad"
    assert overview.memory["used"] > 0


async def test_a_follower_that_read_nothing_yet_is_not_late_by_decades(
    redis_stores: OpenStores, tmp_path: Path
) -> None:
    now_ms = SystemClock().now_ms()
    await redis_stores.access.put_app(App(app_id="shop", environment="development", created_at=now_ms))
    log = keys.change_log("shop", "interaction")
    await redis_stores.server.execute_slow("XADD", log, f"{now_ms}-0", "op", "put", "payload", "x")
    await redis_stores.changes.record_follower("shop", Follower("replica", now_ms, {"interaction": "0"}))
    ada = Principal("ada", "usr-ada", "console", is_administrator=True)
    overview = await _read(redis_stores, tmp_path, ada)
    (app,) = overview.apps
    assert app.lag_ms < 1_000
    late = Follower(LATE_RECHECK, now_ms, {"interaction": f"{now_ms - 110_000}-0"})
    await redis_stores.changes.record_follower("shop", late)
    (app,) = (await _read(redis_stores, tmp_path, ada)).apps
    assert app.lag_ms < 1_000


async def test_somebody_with_a_role_in_an_app_sees_no_findings(
    redis_stores: OpenStores, tmp_path: Path
) -> None:
    grace = Principal("grace", "usr-grace", "console", roles={"shop": "owner"})
    overview = await _read(redis_stores, tmp_path, grace)
    assert (overview.findings, overview.memory, overview.level) == ([], {}, "ok")


async def test_somebody_without_a_role_sees_no_figures(redis_stores: OpenStores, tmp_path: Path) -> None:
    for nobody in (
        Principal("eve", "usr-eve", "token"),
        Principal("eve", "usr-eve", "token", roles={"shop": "owner"}, apps=("news",)),
    ):
        with pytest.raises(Forbidden):
            await _read(redis_stores, tmp_path, nobody)
