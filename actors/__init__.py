"""State and decisions.

An actor is three things in one folder: a plain class with the logic (no Ray, no I/O, no clock), a `host.py` that runs
it in a process, and a `client.py` through which others reach it. `messages.py` holds the frozen values between them.

The lowest layer:

    language/      folding, stemming, embedding of text
    vectors/       arrays and vector indexes: the only importer of faiss

On it:

    models/        the scoring half of trained models
    retrieval/     the indexes of search, completions and paragraphs
    hosting/       apps in memory, kept up to date with the change log

On these:

    archive/       passages of articles that may answer a question

Packages that do not import each other:

    recommender/   recommendations from the state of one app
    answers/       questions, the passages that hold an answer, and the text of the answer
    experiments/   assignment of users to variants, and reports
    history/       threads of a user, and notifications
    intake/        from accepted uploads to records, changes and vectors

Above them:

    search/        query-time search over the state of the recommender
    serving/       loads recommenders and sends them queries
"""
