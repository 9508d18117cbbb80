"""`python -m jobs.refresh`: the same as `kiosk train`, for `ray job submit` and machines without the command line.

train APP --recipe NAME       train as a Ray task (`--local`: in this process) and wait
work APP RUN                  execute the remaining stages of a run, in this process
conform package.module:Class  check whether a custom learner fulfils the protocol
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

from actors.models.loading.allowed_learners import ALLOWED
from cluster.admin.allowed_learners import allowed_learners
from cluster.process.artifact_access import open_artifact_store
from cluster.process.tracing import open_tracing
from cluster.records.run import Run
from cluster.runtime.handover import drop_key_variables
from cluster.settings import Settings
from cluster.store.connect import OpenStores, open_stores
from jobs.command_line import run_program
from jobs.refresh import cli
from jobs.refresh.runs.local_worker import scratch_path


def main() -> int:
    """Run one command; return 0 on success, 1 if a run or a promise failed, 2 or 3 if the command could not run."""
    app = cli.build_refresh_app(_open_installation, _train_on_ray)
    return run_program(app, "python -m jobs.refresh", process="training")


def _open_installation() -> cli.LocalInstallation:
    settings = Settings()
    open_tracing(settings.trace_url, "training")
    ALLOWED.set_source(partial(allowed_learners, settings))
    drop_key_variables()
    return cli.LocalInstallation(
        partial(_connect, settings), partial(open_artifact_store, settings), scratch_path(settings.data_dir)
    )


def _train_on_ray(*arguments: Any, **options: Any) -> Run:
    from jobs.refresh.driver import train  # imports Ray

    return train(*arguments, **options)


def _connect(settings: Settings) -> OpenStores:
    address = settings.redis_address
    if address is None:
        raise cli.NO_REDIS
    return open_stores(address, slow_s=10.0, is_serving=False)


if __name__ == "__main__":
    sys.exit(main())
