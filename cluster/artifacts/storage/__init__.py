"""Files in a bucket or directory: access, conditional writes, and the cache of a node."""
