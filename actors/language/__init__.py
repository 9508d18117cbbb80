"""Words and embeddings, shared by search, the answers, history and the intake.

folding           texts folded for comparison, in two forms; their words and character n-grams
analysis          text to index terms: stop words, stems and hashes by language
hashing_embedder  the Embedder protocol, and the built-in one that needs no training
latent_embedder   an embedder trained on the texts of an app
encoder           a sentence encoder that an operator imported; imported_encoders stores and finds them
language_data     words and patterns of every language from `data/*.toml`; language_schema validates them

To add a language, add a file to `data/`; `data/en.toml` explains every key.
"""
