"""Numbers: array aliases in `types`, and `index`, the only module that imports faiss."""
