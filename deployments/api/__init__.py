"""The REST interface: one file a resource, one table of endpoints, two ways in (fast layer, framework)."""
