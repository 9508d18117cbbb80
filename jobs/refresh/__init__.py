"""Training of recommendation models: `kiosk train`, `evaluate`, `promote` and `rollback`.

Models, histories and the reading of snapshots are in `actors.models`, which recommenders may import. The modules,
from pure functions over arrays (no Ray, no Redis, no clock) outwards:

    recipe         components, parameters and validation; presets in recipes/*.toml
    data/          interactions and user profiles as arrays; splits into training data and targets
    learners/      the protocol of learners, and all learners
    evaluation/    metrics, reports and the promotion gate
    tuning/        choice of parameters and blend weights on validation
    build/         training of a settled recipe, and writing of the snapshot

    runs/          runs: stages, workers, scheduler, promotion and rollback, sweeps
    automation/    trainings that nobody ordered, after a first look at the data and after a drift
    driver         the scheduler and the workers on Ray
    cli            the command line
"""
