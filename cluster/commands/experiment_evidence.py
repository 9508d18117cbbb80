"""Gathers what a report of an experiment is made of: exposures and counters from the store, conversions from the
shelf. What was accepted in the last half minute may not have settled there and is counted the next time."""

from __future__ import annotations

import asyncio
from pathlib import Path

from actors.experiments.report import Report, report
from cluster.artifacts.segments import SegmentShelf
from cluster.artifacts.shelf import Shelf
from cluster.records.experiment import Experiment
from cluster.store.ports import Stores


async def gather(stores: Stores, shelf_dir: Path | str, experiment: Experiment) -> Report:
    """Read everything and put the report together.

    Errors:
        Fault: the manifest of the settled interactions is damaged
    """
    app_id, name = experiment.app_id, experiment.experiment_id
    exposures = [row async for row in stores.experiments.exposures(app_id, name)]
    since_ms = min((exposure.at_ms for _, exposure in exposures), default=0)
    segments = SegmentShelf(Shelf.open(shelf_dir))
    table = await asyncio.to_thread(segments.did, app_id, experiment.goal, since_ms)
    did = zip(table["reader"].to_pylist(), table["at_ms"].to_pylist(), strict=True)
    visitors = [reader[2:] for reader, _ in exposures if reader.startswith("a:")]
    links = await stores.interactions.links(app_id, visitors)
    served = await stores.experiments.served(app_id, name)
    return report(experiment, exposures, did, links=links, served=served)
