"""The life of recommenders in a process.

dispatch               from the kind of a query to its pipeline, and warnings for unknown fields
app_follower           the recommender of one app: loads it (`startup`), follows the change log, answers
model_registry         loads and replaces the snapshot that each engine serves
stored_rules           adds the boost rules of an app to a query
snapshot_trial_router  answers from the snapshot that the trial of an engine draws for the user
interleaved_answers    answers from two sides by team-draft interleaving
treatments             what the variants of a user change in a query
completion_builds      builds completion indexes beside the answers of others, with the pauses of thread_pace
renewal                when a replica loads the state of an app again
replica_comparison     digests of the state of an app, compared between replicas
installation_comparison  answers of one app, compared between two installations
replay/                answers of the past
host                   the apps of one process, within a memory budget
client                 how the API reaches a host, embedded or dedicated, with engine_messages
"""
