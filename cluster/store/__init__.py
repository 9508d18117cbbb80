"""Everything that touches Redis.

Read in this order:

    keys       every key, one function each, with type, owner and lifetime
    ports      what each store promises; the only thing logic and doors know
    connect    `open_stores`: all ports over one Redis; `memory`: the same ports in dictionaries (`twin/`)
    seal       the checksum around what is stored; `quarantine`: where the broken goes
    records tasks intake changes interactions recents engines access limits idempotency pages leases
               the ports over Redis
    scripts/   the atomic steps, one Lua file each, named by what they do; `script` loads them

and below the ports, the way to the server, a small client of our own because it is several times faster than
the general one for many short commands at once:

    server     quick questions, slow ones, scripts, waiting; one breaker before all
    breaker    refuses at once while the server is away
    pipe       a lasting connection     address   where it goes     wire   one socket, shared writes
    replies    what an error of Redis means

Only Redis 6.2 commands are used and no modules. All keys of an app carry `{app}` as hash tag, so one script
may touch them together on a Redis cluster.
"""
