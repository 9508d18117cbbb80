"""The REST interface: a module for each resource, a table of endpoints, and two entries (hot layer, framework)."""
