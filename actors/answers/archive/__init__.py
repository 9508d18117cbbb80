"""Finding passages: what an archive holds about a question.

messages    what is asked and what comes back
client      how doors reach the host
host        the shell: apps on demand, within a memory budget
follower    one app's archive: snapshot, what settled since, the change log
retrieve    THE HOT PATH: words and meaning, blended, dated, chosen
dates       when a question is about

passages    a product as text, sections and passages (`markup` reads HTML)
lexical     BM25 as flat arrays, made by `tallies`
segment     a stretch of the corpus: documents, words, vectors
library     segments that merge as they grow: a snapshot and what came since
snapshot    a segment on disk, mapped and verified; `writing` makes it, `shelf` says which one counts
embedded    what one replica of a node embedded, for the others
"""
