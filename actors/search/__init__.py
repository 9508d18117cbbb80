"""What the search bar finds among products, and answers from their pages.

searching        THE SEARCH: allowed, found, counted, ordered, arranged; `mget` beside it
finding          which products are meant: by words, meaning, an advanced query, likeness, or all
phrases          which products hold words that follow each other
faceting         how many of what was found hold which value
ordering         by relevance and taste, or by fields and formulas
anchoring        products that stand where others stand
found_records    the records of the answer, and its spelling

product_texts    the words of products, followed from the log; `product_meaning` what they mean
saved_products   both in a snapshot

answering        paragraphs of product pages that answer a question: `answer_query` what is asked, `pages` their words
"""
