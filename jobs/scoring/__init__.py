"""Batch scoring: recommendations for a list of users, with the answers of the API.

tables       lists of users from files, frames and Python lists; recommendations as tables
user_scorer  `UserScorer`: the recommender of one app, without HTTP
driver       scoring by many Ray actors; functions for Python programs
"""
