"""Backup and restore: the keys of Redis and the files of the artifact store, while the installation serves."""
