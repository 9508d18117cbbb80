"""Sample data of the read-only environment: a small shop, a small newspaper and their users.

All texts were written for Kiosk and name no real person, company or event. The same time gives the same bytes on
every machine.

    data/       the texts, as JSON: product lines, articles, stories of users, questions with their answers
    data_files  reads data/ into typed values
    seeded_random  seeded draws that do not depend on the Python version
    products    product lines and articles to product records
    users       stories to user records
    sessions    all sessions of all users, in order of time
    loader      loads the records through the intake, or writes them as upload bodies
    driver      opens the stores of an installation for `python -m jobs.playground`
"""
