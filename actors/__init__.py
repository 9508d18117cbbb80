"""State and decisions.

An actor here is three things in one folder: a plain class that thinks (no Ray, no I/O, no clock), a `host.py`
that gives it a life on the cluster, and a `client.py` through which others reach it. `messages.py` holds the
frozen values that travel between them.

    language/      words: fold, cut, embed
    vectors/       numbers: the only place that imports faiss
    recommender/   one engine's mind
    intake/        accepted uploads become records, changes and vectors
"""
