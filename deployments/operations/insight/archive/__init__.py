"""What agents of the archive ask, read and cite."""
