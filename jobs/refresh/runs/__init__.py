"""Runs of trainings: creation, claim by a worker, resumption, publication and promotion.

estimate                   estimates of memory and time; `--dry-run`
uncompacted_data           waits until accepted data is compacted
training_source            reads the compacted data of an app
plan_evaluation            dataset, plan and evaluation, one function each
checkpoint                 results of the stages in the artifact store
training_stages            the stages of one run; an attempt begins at the first stage without a checkpoint
version_comparison         versions of an engine, and the evaluation of one recipe
measurements               evaluations and sweeps, which publish nothing

run_commands               changes of run records
worker                     executes the remaining stages of a run; may be killed at any moment
scheduler                  finds runs without a worker, fires schedules, starts workers
promotion                  promotion and rollback of the version that an engine serves
local_worker               executes a run in the calling process; `display` prints the progress
"""
