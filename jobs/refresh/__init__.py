"""Learning what to recommend. Plain functions over arrays: no Ray, no Redis, no clock, no files but in `build`.

Models, histories and the reading of snapshots are in `actors.learned`, where recommenders may enter. Read here:

    recipe        what to learn and how: parts, parameters, presets (recipes/*.toml)
    dataset       what happened, as arrays; from a polars frame or from settled segments
    profiles      what readers are like
    split         trials: what may be learned, what is asked afterwards
    learner       the protocol of everything that learns, also of your own models
    ease rules item_knn content_knn session_knn popularity repeats      learners of the blend
    baskets als cold                                                    learners of other questions
    candidates choose tune                                              which weights and parameters are best
    plan          tunes and weighs a recipe on validation, fits the result
    estimate      what a training will cost, before it starts
    metrics evaluate                                                    figures, segments, intervals, comparisons
    completions   what readers complete, indexed beside what was learned
    build         a trained engine written as a snapshot
"""
