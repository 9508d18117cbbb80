"""The common ground: what every process must agree on before it can talk to another.

Read in this order:

    ids, errors, clock, meter, launcher, log, settings   words and small agreements; import nothing of ours
    records/      the stored nouns and their validation
    query/        the Solr-style filter language
    store/        everything that touches Redis
    artifacts/    what stands on the shelf, and in which form
    runtime/      the only ground-floor folder that knows Ray
    commands/     the `kiosk` command line, a thin skin over all of it

Data goes one way: in at a door (deployments/), into a log (store/), into memory (actors/), out of a door.
"""
