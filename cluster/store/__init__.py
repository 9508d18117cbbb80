"""Everything that touches Redis.

Read in this order:

    keys      every key, one function each, with type, owner and lifetime
    ports     what each store promises; the only thing logic and doors know
    seal      the checksum around every stored record
    connect   one async client per process
    users products interactions engines tasks intake changes access limits idempotency   the ports over Redis
    memory    the same ports in dictionaries, for tests and for trying things out
    scripts/  the atomic steps, one Lua file each, named by what they do

Only Redis 6.2 commands are used and no modules. All keys of an app carry `{app}` as hash tag, so one script
may touch them together on a Redis cluster.
"""
