"""Trainings as runs: created, claimed, resumed after a death of the worker, published, promoted.

estimate dry_run           what a training will cost; `--dry-run`
training_source            reads the compacted data of an app
stages                     dataset, plan and evaluation, one function each
checkpoint                 results of the stages in the artifact store
training                   the stages of one run; an attempt begins at the first that is missing
sweep version_comparison   variants of a recipe, versions of an engine

run_commands               steps on the records of runs
worker                     executes the remaining stages of a run, and may die at any moment
scheduler                  finds runs without a worker, fires schedules, starts workers
promotion                  the version that an engine serves, and the way back
local_worker               all of it in the calling process; `display` prints the progress
"""
