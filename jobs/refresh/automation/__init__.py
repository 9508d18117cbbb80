"""Trainings that nobody ordered, in apps whose setting `automatic_models` is on.

first_training    when the data of an app pay for a first training and its schedule
traffic_rates     rates of the served log, the shown products and the interactions, by hour
drift             whether the newest hours differ from the same hours of the days before
trial_verdict     what a comparison of two snapshots on people shows: better, worse, broken, or not known yet
trial_samples     what the people of a trial did, from the log of answers and its outcomes
trial_watch       promotes, rolls back or ends as trials decide
supervisor        does all of it for all apps, in the process of the scheduler
"""
