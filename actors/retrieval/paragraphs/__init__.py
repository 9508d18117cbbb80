"""Paragraphs of product pages as answers to questions.

paragraph_splitter    HTML to paragraphs, each with its heading
paragraph_scorer      the probability that a paragraph answers a question; a cache of analyzed pages
paragraph_renderer    one paragraph with its CSS selector, its HTML and the block around it
"""
