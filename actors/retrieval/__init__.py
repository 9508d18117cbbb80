"""The search bar: completions while somebody types, products by their words. Plain arrays.

folding        texts as they are compared, and the way back to what is shown
distance       how many typos away, for many candidates at once
completions/   the index of completions: build, look up, mark up
products/      the index of products: words, typos, meaning
"""
