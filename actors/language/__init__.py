"""Words, shared by the recommender, the answers and the intake.

tokens      split and fold text
analysis    text to index terms: stemmed and hashed, by language
stopwords   words that say nothing
embed       the Embedder protocol, and the built-in one that needs no training
latent      an embedder trained on an app's own texts
encoder     a sentence encoder that an operator imported
"""
