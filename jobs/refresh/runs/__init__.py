"""Trainings as runs: asked for, claimed, gone on with after a death, published, promoted.

estimate rehearsal         what a training will cost; `--dry-run`
source                     what is settled, read for a training
stages                     dataset, plan, evaluation, one function each
checkpoint reports         results on the shelf
training                   the stages of one run; each may be the first one an attempt does

orders                     steps on the records of runs
worker                     does what is left of a run, and may die at any moment
foreman crew               finds runs nobody works on, fires schedules, sends workers
promoting                  what serves, and the way back
here                       all of it in the process that calls; `display` for the eye
"""
