"""Experiments as JSON, for whoever administers them: on the command line and over HTTP alike."""

from __future__ import annotations

from typing import Any

from cluster.clock import iso_ms
from cluster.records.experiment import Experiment


def experiment_to_dict(experiment: Experiment, now_ms: int) -> dict[str, Any]:
    """Say an experiment; `status` is where it stands now."""
    ends_at = experiment.ends_at
    return {
        **experiment.model_dump(mode="json"),
        "status": experiment.status_at(now_ms),
        "starts_at": iso_ms(experiment.starts_at) if experiment.starts_at else None,
        "ends_at": iso_ms(ends_at) if ends_at is not None else None,
        "created_at": iso_ms(experiment.created_at),
        "weights_at": iso_ms(experiment.weights_at) if experiment.weights_at else None,
    }
