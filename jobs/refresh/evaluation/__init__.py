"""Evaluation of ranked lists, and the promotion gate.

metrics     metrics of ranked lists, one value per user
evaluate    full ranking of the whole catalog, by segment, with confidence intervals
reports     reports as JSON and Markdown; `plots` draws them
gate        decides whether a version may replace the serving one
"""
