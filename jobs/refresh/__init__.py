"""Learning what to recommend: `kiosk train`, `evaluate`, `promote` and `rollback`, and what they rest on.

Models, histories and the reading of snapshots are in `actors.learned`, where recommenders may enter. Read here, from
plain functions over arrays (no Ray, no Redis, no clock) outwards:

    recipe        what to learn and how: parts, parameters, presets (recipes/*.toml)
    dataset       what happened, as arrays; from a polars frame or from settled segments
    profiles      what readers are like
    split         trials: what may be learned, what is asked afterwards
    learner       the protocol of everything that learns, also of your own models; `conformance` holds them to it
    learners      from a part of a recipe to its learner
    ease rules item_knn content_knn session_knn popularity repeats als   learners of the blend
    matrix neighbours                                                    what several of them share
    baskets cold                                                         learners of other questions
    candidates choose tune                                               which weights and parameters are best
    plan          tunes and weighs a recipe on validation
    fit           trains every part of a settled recipe
    estimate      what a training will cost, before it starts; `rehearsal` for `--dry-run`
    metrics evaluate verdict gate                                        figures, segments, intervals; may it serve?
    plots         figures as pictures
    completions searching                                                products, indexed beside what was learned
    build         a trained engine written as a snapshot

    source        what is settled, read for a training
    stages        dataset, plan, evaluation, one function each
    checkpoint reports                                                   results on the shelf
    training      the stages of one run; each may be the first one an attempt does
    sweep sweeps comparing                                               recipes beside each other

    orders        steps on the records of runs
    worker        does what is left of a run, and may die at any moment
    foreman crew  finds runs nobody works on, fires schedules, sends workers
    promoting     what serves, and the way back
    here driver   in this process, and on Ray
    words display                                                        for the command line and the eye
"""
