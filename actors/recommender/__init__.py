"""One engine's mind.

Read `messages` (what is asked), `pipeline` (the hot path, one screen), then the stages in its order:

    request      a query with everything the stages need: history by row, taste, pages
    taste        what the reader likes right now
    score        how good each product is for them, one number a row
    recall       who may appear, and the best of them
    arrange      dithering (`dither`), boosts, spacing (`spacing`), the page
    project      the fields of the answer
    grouped      the same scores by category or attribute value

What the stages read, and how it comes to be:

    catalog      products by row, masks, groups of rows by value (`groups`)
    overlay      applies the change log: products, and interactions as arrays (`events`)
    trending     decayed counts, one vote per reader, product and day
    together     what goes with what
    ledger       who contributed what, so that it can be taken back
    holdings     the overlay and what follows from it for every reader alike

`recommender` ties it together without a store or a clock. `follower` keeps one app's recommender alive (`boot`
loads settled segments, then the log is followed), `followers` holds several within a memory budget, `host` is the
shell around them and `client` how doors reach it.
"""
