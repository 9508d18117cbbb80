"""Everything that accesses Redis.

Read in this order:

    keys               every key, one function each, with type, owner and lifetime
    seals/             the checksum around stored values, hashes of sealed records, the quarantine
    data/              what clients write: the intake, records, interactions, change logs; erasure of a person
    engines/           engines, their runs, rules, experiments and traffic
    archive/           questions and answers, threads, the query log, calls of the archive
    administration/    apps, keys, accounts, grants, the audit log
    installation/      identity, schema, leases, shared limits, figures of API replicas
    stores             `Stores`: one value with all stores of a process; most other packages import only this
    connect            `open_stores`: all stores over one Redis
    refreshing_cache   values of a store in memory, refreshed in the background
    client/            the Redis client, which knows no record
    scripts/           the atomic steps, one Lua file each

Only Redis 6.2 commands are used and no modules. All keys of an app carry `{app}` as hash tag, so one script
may touch them together on a Redis cluster. Every method of a store may raise `cluster.errors.Unavailable`: Redis
can't be reached within the deadline.
"""
