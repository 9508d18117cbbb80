"""Modules that all processes of Kiosk share.

Read in this order:

    ids, errors, clock, meter, log, crypto, settings, paths, build_info, backup_pace    small shared modules
    addresses/    addresses of the artifact store, of Redis, of the installation, and of unknown hosts
    records/      the stored nouns and their validation
    query/        the filter language and the columns it is applied to
    store/        everything that accesses Redis
    artifacts/    segments and snapshots in the artifact store
    admin/        use cases that a first start needs: apps, keys, accounts
    backup/       backup and restore
    process/      what every process needs without Ray: stores, identity, tracing, guards
    runtime/      Ray: start, find and connect actors and applications
    local/        the supervisor of an installation on one machine
    docker/ helm/ kuberay/ serve/ prometheus/ locks/   files for deployments

Data goes one way: API replica (deployments/), change log (store/), memory (actors/), API replica.
"""
