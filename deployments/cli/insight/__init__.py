"""Commands of figures: experiments, reports of search and of the archive, the audit log."""
