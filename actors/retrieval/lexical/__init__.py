"""The lexical index: BM25 for products and passages, and spelling correction.

bm25                the formulas: idf, length norm, term-frequency saturation
postings            which texts have a term, and how often: the arrays that both indexes share
messages            messages: TextQuery, TextHits
search_index        the product index: put, remove, find
product_fields      the searched fields of a product
product_terms       these fields as terms, with translations
product_languages   the languages of the products of an index
product_access      the access of the products of an index
product_postings    postings of products, with counts and fields; build and merge
index_segments      the segments of the product index, and which one owns a product
joined_parts        joined copies of segments that users often search together
query_terms         a query as words and terms
term_matcher        products that match a query, and their scores
spell_correction    corrections of words that no product has
spell_dictionary    the words of all products, and which are near a word
snapshot_format     the product index in a snapshot
passage_postings    postings of passages in 255 levels; the exact best passages of a query
"""
