"""Golden answers: what the whole interface answers to fixed requests, so that a change of names and places proves that
it changed nothing else.

    python -m tests.golden record FILE      send all requests and write the answers
    python -m tests.golden compare FILE     send them again and show what differs; exit code 1 if anything does

Everything runs in this process: no Ray, no network, a clock that stands still, fixed seeds. Product code is imported
statically, so a tool that renames modules and classes can rewrite the imports.

Masked, because each run draws it or measures it anew:

    took                                  milliseconds of an answer
    request ids                           `request_id`, the header `x-request-id`
    UUIDs that the server draws           replaced by the label of the answer that showed them first
    salts of experiments, subjects        `entry_salt`, `variant_salt`, `subject`
    keys, tokens, codes, form tokens      of apps and of OAuth, and values of cookies
    moments of the command line           its commands read the system clock
    order of methods in `allow`           sorted: the framework keeps them in a set
    content-length, date                  they follow from the above

Numbers are recorded to the last digit. Both commands run with fixed kernels (`arithmetic.py`), so that every x86-64
processor gives the same ones. A comparison accepts numbers that agree in 6 significant digits, because versions of
Python and of the C library differ in the last ones; it counts such answers, and `--exact` refuses them.
"""
