"""Words, shared by the recommender, the answers and the intake.

tokens    split and fold text
embed     the Embedder protocol and the built-in one
"""
