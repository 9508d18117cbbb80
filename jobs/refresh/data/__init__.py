"""What happened, and what of it may be learned.

dataset     events as arrays: who dealt with which item, when, and what it is worth
profiles    what users are like
split       trials: what may be learned, what is asked afterwards
"""
