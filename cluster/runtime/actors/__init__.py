"""The named actors of an installation: their roles, names, threads and stand-bys."""
