"""Everything that accesses Redis.

Read in this order:

    keys               every key, one function each, with type, owner and lifetime
    ports/             the protocol of each store; other packages import only these and `refreshing_cache`
    refreshing_cache   values of a store in memory, refreshed in the background
    connect            `open_stores`: all ports over one Redis
    redis/             the ports over Redis, and the client below them

Only Redis 6.2 commands are used and no modules. All keys of an app carry `{app}` as hash tag, so one script
may touch them together on a Redis cluster.
"""
