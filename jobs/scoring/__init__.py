"""Batch scoring: recommendations for a list of users, with the answers of the API.

users        lists of users from files, frames and Python lists
user_scorer  `UserScorer`: the recommender of one app, without HTTP
results      recommendations as tables, one row for each product or for each user
driver       scoring by many Ray actors; functions for Python programs
"""
