"""Trained models: the half of a trained engine that serving needs. Nothing here trains.

Read in this order:

    user_histories      the interactions of users before the query, and their decay
    user_history        the history of one user, for a single query
    model               the protocol of everything that scores, also of custom models
    neighbours sessions popularity repeat factors      the models of a blend
    cohorts content                                    models for cold-start users and items
    standardized blend                                 several models as one
    snapshot            trained arrays on disk, memory-mapped, every byte checked
    registry            from a part of a snapshot to the model that scores (`validation`, `allowed_learners`)

`jobs.refresh` trains and writes. It uses these modules, so validation chooses exactly what serves.
"""
