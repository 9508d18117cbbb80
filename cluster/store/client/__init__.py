"""The Redis client: connections, routing and scripts, without any knowledge of records.

    redis_client   what stores need of a client: short commands, slow ones, scripts and blocking reads
    multiplexed_client, cluster_client    for what a request waits for; one breaker in front of each server
    library_client over redis-py, for commands, jobs and actors     discovery   where the servers are, by redis-py
    connection     one lasting connection     multiplexer   one socket, shared writes     handshake   opening it
    address        a parsed URL     routing   slots and writes of commands     acl   the rights that a user needs
    breaker        refuses at once while the server is away     durable_writes   writes that replicas confirm
    error_replies  what an error of Redis means     replies   bytes as text, flat lists as pairs
    script         loads the atomic steps of `cluster/store/scripts`
    key_loader, key_writer    keys of any type, page by page, for backups

The client is our own because it sends many short commands at once several times faster than the general one
(`docs/decisions`).
"""
