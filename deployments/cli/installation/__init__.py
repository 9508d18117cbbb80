"""Commands of an installation: start, stop, status, logs, backup, upgrade, keys of the machine, Ray clusters."""
