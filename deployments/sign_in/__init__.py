"""Sign-in of people, for the console and for the consent pages of the archive."""
