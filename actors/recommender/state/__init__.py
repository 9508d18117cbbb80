"""What the engines of an app know: products, interactions, counts, and the snapshot that each engine serves."""
