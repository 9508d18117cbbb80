"""Addresses: of the artifact store, of Redis, of the installation, and of unknown hosts."""
