"""Numbers: array aliases in `types`, the best of many scores in `top`, and what imports faiss: `index` and
`compact`."""
