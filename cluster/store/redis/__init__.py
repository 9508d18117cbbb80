"""The ports over Redis.

    client         what stores ask of a client: short commands, slow ones, scripts and blocking reads
    multiplexed_client, cluster_client    for what a request waits for; one breaker in front of each server
    library_client over redis-py, for commands, jobs and actors     discovery   where the servers are, by redis-py
    connection     one lasting connection     multiplexer   one socket, shared writes     handshake   opening it
    address        a parsed URL     routing   slots and writes of commands     acl   the rights that a user needs
    breaker        refuses at once while the server is away
    error_replies  what an error of Redis means
    record_seal    records as sealed JSON: what a newer release wrote is kept
    seal           the checksum around stored values; `quarantine` keeps values whose checksum fails
    script         loads the atomic steps of scripts/, one Lua file each

The other files implement one port each. The client is our own because it sends many short commands at once several
times faster than the general one (`docs/decisions`).
"""
