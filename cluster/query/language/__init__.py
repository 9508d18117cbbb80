"""Filter text to syntax tree: lexer, parser, tree, limits, values, patterns, boost rules."""
