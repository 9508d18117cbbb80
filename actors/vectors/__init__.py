"""Numbers: array aliases in `types`, the best of many scores in `top`, and `index`, which alone imports faiss."""
