"""Word lists of the extractive answerer, one TOML file for each language."""
