"""Batch scoring: recommendations for a list of users, with the answers of the API.

users      lists of users from files, frames and Python lists
scoring    `UserScorer`: the recommender of one app, without HTTP
results    answers as tables, one row for each product or for each user
driver     many workers as Ray actors, and the same from Python
"""
