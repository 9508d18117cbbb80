"""Use cases of the administration, shared by the command line, HTTP and the console, and the reports they show.

all_operations  the table of all use cases; each module of a subject adds its own
open_admin      the administration over the stores of a process
framework  what a use case is, who performs it, what authorizes, validates and records it
access     apps, keys, accounts, invitations, tokens, clients of the archive
content    products, users, imports, quarantine, rules, questions
models     engines, recipes, runs, schedules, snapshots, promotions, evaluations
insight    experiments, explanations, reports, measurements, the overview
"""
