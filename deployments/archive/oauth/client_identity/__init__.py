"""Who an OAuth client is: registered, described by a document, or proved by its signature."""
