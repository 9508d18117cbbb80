"""Sample data for the read-only environment: a small shop, a small newspaper, and the people who use them.

Everything here was written by us; nothing names a real person, company or event. The same `read_clock_ms` gives the
same bytes on every machine.

    data/       the texts, as JSON: product lines, articles, stories of users, questions with their answers
    sources     reads data/ into typed values
    dice        seeded draws that do not depend on the Python version
    shop        product lines to product records, one a variant
    archive     articles to product records of type `article`
    users     stories to user records
    diary       what a user did in one session, written down as interactions
    visits      all sessions of all users, in the order they happened
    load        writes it all, by the road every upload takes, once
    driver      opens the stores of an installation for `python -m jobs.playground`
"""
