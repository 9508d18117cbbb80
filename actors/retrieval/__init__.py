"""Build and query lexical, vector and completion indexes over plain arrays; this package has no API types.

lexical/              BM25 for products and passages, spelling correction
autocomplete/         completions of product fields, stored questions and popular queries
paragraphs/           HTML pages as paragraphs that may answer a question
messages              SearchQuery, AnswerQuery and their results
product_search        lexical and vector search over an app's products, kept up to date
product_vectors       vector search over products
snapshot_format       the search index in a snapshot
popular_queries       queries by the number of users who sent them
logged_queries        the same from the query log
html_text             the visible text of HTML
prefix_edit_distance  typos between what was typed and the beginnings of many texts
packed_texts          many texts in one array of bytes
"""
