"""Experiments: which user sees which variant, and how the variants compare.

assignment     choose a variant: forced, remembered, or by salted hashes, for events and queries; host is its Ray actor
lifecycle      drafts, edits and changes of status
report         conversions, guardrails and the check of the split; report_data loads what it counts
goal_report    values and ratios of people, CUPED, corrections; goal_values sums them by person
question_report   visits for each question of an agent
sample_size    how many people an experiment needs
guardrails     pause an experiment that does certain harm
team_draft     a list that two sides fill by turns
interleaving   the credit of clicks in such lists, and the decision; interleaving_report reads the logs
statistics     always-valid intervals and the test of the split
client         typed clients of the assigner and of the administration
messages       what callers send and receive
"""
