"""One engine's mind.

Read `messages` (what is asked), `pipeline` (the hot path, one screen), then the stages in its order:
`catalog` (who may appear), `taste` (what the reader likes), `recall` and `score` (how good each product is),
`arrange` (boosts, one per group, spacing), `project` (the fields of the answer). `overlay` learns from the
change log, `recommender` ties it together, `host` keeps it alive, `client` is how doors reach it.
"""
