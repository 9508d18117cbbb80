"""One engine's mind.

Read `messages` (what is asked), `pipeline` (the hot path, one screen), then the stages in its order:

    request      a query with everything the stages need: history by row, taste, pages
    taste        what the reader likes right now; `context` what the session says
    score        how good each product is for them: `parts` that speak, added up where they lie (`layout`)
    ranking      scores of all rows, and the best of them without looking at most
    recall       who may appear
    explore      a small share of attention for new products
    arrange      dithering (`dither`), boosts, spacing (`spacing`), the page
    project      the fields of the answer
    grouped      the same scores by category or attribute value; `sections` what of a group passes a filter
    explain      why a product stands where it does

The same products by words: `search/` (what a search bar finds), `completion/` (what somebody types means).

What the stages read, and how it comes to be:

    catalog      products by row, masks, groups of rows by value (`groups`, `attributes`)
    overlay      applies the change log: products, and interactions as arrays (`events`)
    trending     decayed counts, one vote per reader, product and day
    together     what goes with what
    ledger       who contributed what, so that it can be taken back
    user_attributes   values of users that form cohorts; `live_cohorts` what users of a cohort take
    crowd        how products stand for whoever asks, whichever engine
    champion     one engine's snapshot, laid over the catalog
    newcomers    new products and what they are like
    holdings     all of this for one engine, and what every score starts from

`stored_rules` adds an app's boost rules to a query (`applied_rules` says which), before it is answered.

`recommender` ties it together without a store or a clock. `follower` keeps one app's recommender alive (`boot`
loads settled segments, then the log is followed), `champions` brings about what the engines' records say serves,
`host` is the shell around several apps (`actors.hosting`) and `client` how doors reach it.
"""
