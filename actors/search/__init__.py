"""Query-time search over the state of an engine: products, completions, and answers from product pages.

search_pipeline      a search: allowed, found, counted, ordered, arranged; `mget`
retrieve             products that a search finds: by words, vectors, an advanced query, similar texts, or all
phrases              products with words that follow each other
facets               counts of values among the hits
sort                 by relevance and personal score, by fields and formulas, or beside anchors
result_rendering     the records of a result, and its spelling
completions          autocomplete of product fields and of popular queries
passage_answers      paragraphs of product pages that answer a question
question_bank_cache  question banks of all apps, cached by version; stored questions as completions
"""
