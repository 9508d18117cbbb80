"""Training data as arrays, and its splits.

dataset     interactions: user, item, time, weight
profiles    profile fields of users
split       splits into training data, histories and targets
"""
