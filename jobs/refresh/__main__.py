"""`python -m jobs.refresh`: what `kiosk train` does, for `ray job submit` and for machines without the command line.

train APP --recipe NAME       train as a Ray task (`--local`: in this process) and wait
work APP RUN                  do what is left of an ordered run, in this process
conform package.module:Class  hold a learner of yours to the protocol
"""

from __future__ import annotations

import argparse
import sys
from functools import partial

from actors.models.allowed_learners import ALLOWED
from cluster.admin.allowed_learners import allowed_learners
from cluster.errors import HouseError
from cluster.log import set_up_logging
from cluster.runtime.artifact_access import open_artifact_store
from cluster.runtime.handover import drop_key_variables
from cluster.settings import Settings
from cluster.store.connect import OpenStores, open_stores
from jobs.refresh import cli
from jobs.refresh.runs.local_worker import scratch_path


def main() -> int:
    """Do one of them; 0 when it went well, 1 when a run or a promise failed, 2 when it could not be done."""
    arguments = cli.build_parser(__doc__ or "").parse_args()
    set_up_logging()
    try:
        return _do(arguments)
    except HouseError as error:
        print(f"{arguments.what} stopped: {error.message}", file=sys.stderr)  # noqa: T201
        return 2


def _do(arguments: argparse.Namespace) -> int:
    if arguments.what == "conform":
        return cli.run_conformance(arguments)
    settings = Settings()
    ALLOWED.set_source(partial(allowed_learners, settings))
    drop_key_variables()
    place = cli.LocalInstallation(
        partial(_connect, settings), partial(open_artifact_store, settings), scratch_path(settings.data_dir)
    )
    if arguments.what == "work":
        return cli.work_on_run(arguments, place)
    if arguments.local:
        return cli.train_in_process(arguments, place)
    from jobs.refresh.driver import train

    return cli.train_and_wait(arguments, train)


def _connect(settings: Settings) -> OpenStores:
    if settings.redis_url is None:
        raise cli.NO_REDIS
    return open_stores(settings.redis_url.get_secret_value(), slow_s=10.0)


if __name__ == "__main__":
    sys.exit(main())
