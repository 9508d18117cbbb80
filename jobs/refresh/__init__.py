"""Learning what to recommend: `kiosk train`, `evaluate`, `promote` and `rollback`, and what they rest on.

Models, histories and the reading of snapshots are in `actors.models`, where recommenders may enter. Read here, from
plain functions over arrays (no Ray, no Redis, no clock) outwards:

    recipe         what to learn and how: parts, parameters, presets (recipes/*.toml)
    learner        the protocol of everything that learns, also of your own models
    events/        what happened, as arrays, and what of it may be learned
    learners/      everything that learns
    figures/       how good it is, and whether it may serve
    tuning/        which parameters and weights are best
    building/      a settled recipe trained, and written as a snapshot

    running/       trainings as runs: stages, workers that may die, what serves and the way back
    comparisons/   recipes beside each other
    driver         all of it on Ray
    words          the words of the command line
"""
