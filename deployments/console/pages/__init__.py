"""The pages of the console: one file an area; `table` lists them all."""
