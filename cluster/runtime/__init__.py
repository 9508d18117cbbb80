"""Ray: bootstrap an installation, attach to a cluster, find or create actors, operate dedicated engines."""
