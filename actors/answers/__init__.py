"""Finding passages: what an archive holds about a question.

messages    what is asked and what comes back
client      how doors reach the host
host        the shell: apps on demand, within a memory budget
follower    one app's archive: snapshot, what settled since, the change log
retrieve    the hot path: words and meaning, blended, dated, chosen
dates       when a question is about

passages    a product as text, sections and passages (`markup` reads HTML)
lexical     BM25 as flat arrays; `tallies` counts words and makes them
segment     a stretch of the corpus: documents, words, vectors
library     segments that merge as they grow: a snapshot and what came since
snapshot    a segment on disk, mapped and verified; `writing` makes it, `shelf` says which one counts
embedded    vectors of a slow embedder, made once for all replicas of a node

composing   an answer of their sentences, or an honest no: `wanted` reads the question, `weighing` every sentence beside
            it, `judging` says which answers and how sure that is
verify      does a passage hold what a sentence says; `figures` reads numbers
orders      what talks to machines instead of readers, and what is hidden
rendering   a composed answer as markdown with its citations
asking_on   what a follow-up means, and what else could be asked
kinds       what a question asks for; `appearance` what that looks like; `wording` and `kindred` which words are near
"""
