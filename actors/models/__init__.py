"""Trained models: the half of a trained engine that serving needs. Nothing here trains.

Read in this order:

    user_histories      the interactions of users before the query, and their decay
    user_history        the history of one user, for a single query
    model               the protocol of everything that scores, also of custom models
    neighbours, sessions, popularity, repeat, factors, transformer   the models of a blend
    cohorts, content, features                                       models for cold-start users and items
    standardized_scores, blend                                       several models as one
    reranker, tree_ensemble                                          more gains for the best products of a list
    loading/snapshot    trained arrays on disk, memory-mapped, every byte checked
    loading/snapshot_models  from a part of a snapshot to the model that scores (`validation`, `allowed_learners`)

`jobs.refresh` trains and writes. It uses these modules, so validation chooses exactly what serves.
"""
