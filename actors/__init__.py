"""State and decisions.

An actor here is three things in one folder: a plain class that thinks (no Ray, no I/O, no clock), a `host.py`
that gives it a life on the cluster, and a `client.py` through which others reach it. `messages.py` holds the
frozen values that travel between them.

Below, what several of them stand on:

    language/      words: fold, cut, stem, embed
    vectors/       numbers: the only place that imports faiss
    learned/       what a training learned, and how to ask it
    following/     apps held in memory, and kept up with the change log
    search/        the search bar: typos, completions, products by their words

Above, strangers to each other:

    recommender/   one engine's mind
    answers/       questions, the passages that hold an answer, and who writes it
    experiments/   which reader sees which variant, and what came of it
    history/       a reader's threads, and what is news for them
    intake/        accepted uploads become records, changes and vectors
"""
