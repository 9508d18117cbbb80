"""Find passages of an archive that may answer a question.

messages          requests and replies
client            the client that API replicas use
host              loads the archives of apps on demand, within a memory budget
follower          keeps one app's archive current: snapshot, compacted records, change log
retrieve          THE HOT PATH: scores by words and by meaning, blended, dated, selected; candidates finds both lists
passages          a product as text, sections and passages
segment           an immutable part of the corpus: documents, words, vectors
passage_index     segments that merge as they grow: a snapshot and later records; joined_postings joins the postings
                  of accesses that are often read together
embedding_cache   embed each passage once for all replicas of a node
question_dates    the time that a question asks about
passage_snapshot  a segment on disk, mapped and verified; snapshot_writer makes it, snapshot_store finds
                  the newest and shares new vectors among the replicas of a node
citations         whether citations still stand; revisions has corrections and withdrawals of articles
teasers           title and address of locked articles that fit a question
article_visits    visits of articles, joined to the calls of agents
"""
