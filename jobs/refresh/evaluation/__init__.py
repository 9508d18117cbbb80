"""How good is it: figures of ranked lists, and what they decide.

metrics     from ranks to numbers, one per user
evaluate    full ranking over the whole catalog, by segment, with intervals
verdict     the report, as JSON and as text; `plots` as pictures
gate        may this one serve instead of that one?
"""
