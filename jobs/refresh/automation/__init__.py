"""Trainings that nobody ordered, in apps whose setting `automatic_models` is on.

first_training    when the data of an app pay for a first training and its schedule
drift_figures     rates of the served log, the shown products and the interactions, by hour
drift             whether the newest hours differ from the same hours of the days before
supervisor        does all of it for all apps, in the process of the scheduler
"""
