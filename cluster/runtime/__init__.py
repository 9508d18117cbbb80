"""The only ground-floor folder that knows Ray: start, stop and look at a one-machine cluster."""
