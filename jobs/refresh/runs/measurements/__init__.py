"""Runs that measure and publish nothing.

measurement         which recipe to measure, and the stages of such a run
off_policy_evaluation  what lists of a recipe or version would have earned, by the log of answers
sweep               variants of one recipe on the same users
learning_curve      a recipe with fewer users, and with shorter histories
"""
