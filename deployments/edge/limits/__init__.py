"""Token buckets, in this process and leased from the store, and the limits of sign-ins."""
