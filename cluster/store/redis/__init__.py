"""The ports over Redis.

    client         short commands, slow ones, scripts and blocking reads; one breaker in front of all
    connection     one lasting connection     multiplexer   one socket, shared writes     address   where it goes
    breaker        refuses at once while the server is away
    error_replies  what an error of Redis means
    record_seal    records as sealed JSON: what a newer release wrote is kept
    seal           the checksum around stored values; `quarantine` keeps values whose checksum fails
    script         loads the atomic steps of scripts/, one Lua file each

The other files implement one port each. The client is our own because it sends many short commands at once several
times faster than the general one (`docs/decisions`).
"""
