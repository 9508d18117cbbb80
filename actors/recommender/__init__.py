"""Recommendations of one app. Nothing here uses a store, a clock or randomness.

Read `messages` (queries and results), `pipeline` (the hot path on one screen), then the stages in their order:

    ranking/pipeline_inputs   page, history, profile and cohort of the user (`user_profile`, `session_context`)
    ranking/score             the prior and the personal score of every row
    ranking/candidates        filters, consumed rows, and the best rows of a `ranking`
    rerank/exploration        places for cold-start items, and dithering
    rerank/rerank             dithering, boosts, diversity (`diversity`), the page, the records of the result
    rerank/group_scores       the order of categories and attribute values, which `group_pipeline` lists
    explain                   why a product has its place

The stages read the state of one engine:

    state/catalog             products by row, masks, groups of rows by value (`groups`, `filtered_groups`)
    state/overlay             applies the change log: products, and interactions as arrays (`events`)
    state/vote_counts         decayed counts, one vote for each user, product and day (`user_contributions`)
    state/cooccurrence        products of the same sessions and baskets
    state/live_cohorts        votes of users with equal attributes (`user_attributes`)
    state/global_signals      trend, popularity and availability, shared by all engines of an app; prior scores
    state/serving_model       the snapshot of one engine, bound to the rows of the catalog
    state/cold_start          products with few interactions, and the products similar to them
    state/score_components    the components of a personal score
    state/engine_state        all of this for one engine

`recommender` owns the overlay and the engine states of one app. `actors.serving` loads it, keeps it up to date and
sends it queries.
"""
