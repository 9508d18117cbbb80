"""The search bar: completions while somebody types. Plain arrays, memory-mapped back from a snapshot.

folding        texts as they are compared, and the way back to what is shown
distance       how many typos away, for many candidates at once
completions/   the index: build, look up, mark up
"""
