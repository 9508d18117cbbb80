"""The pages of the console: one file an area; `all_pages` lists them all."""
