"""Records of the archive: its feeds and articles, its terms, and the clients that call it."""
