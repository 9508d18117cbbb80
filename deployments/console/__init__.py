"""The web console: server-rendered pages over the use cases of the administration."""
