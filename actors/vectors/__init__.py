"""Numbers: array aliases in `types`, the best of many rows in `row_selection`, and what imports faiss: `index` and
`compact`."""
