"""Learning what to recommend. Plain functions over arrays: no Ray, no Redis, no clock, no files but in `snapshot`.

Read in this order:

    recipe        what to learn and how: parts, parameters, presets (recipes/*.toml)
    vocabulary    names and codes
    dataset       what happened, as arrays; from a polars frame or from settled segments
    histories     what readers did before the moment of asking, and how it fades
    split         trials: what may be learned, what is asked afterwards
    learner       the protocol of everything that learns, also of your own models
    ease rules item_knn session_knn popularity repeats      learners of the blend
    baskets als cold                                        learners of other questions
    scaled blend candidates choose                          several models as one
    plan          tunes and weighs a recipe on validation, fits the result
    estimate      what a training will cost, before it starts
    metrics evaluate                                        figures, segments, intervals, comparisons
    snapshot build                                          trained arrays on disk, memory-mapped back
"""
