"""Word lists of completions."""
