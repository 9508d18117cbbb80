"""History: a reader's threads, and who is told that something significant is new.

threads        what every call does to a reader's threads: pure rules, values in and out
significance   is this content news for that thread? judged first, with score and reason
"""
