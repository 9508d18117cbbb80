"""Questions and what an archive says to them.

archive/    passages of articles, found by words and meaning
composing/  sentences chosen, checked and cited, without a language model
provider/   a language model elsewhere, streaming, with deadlines and a breaker

asking      how others have a question asked
desk        where questions are worked on: held, taken over when whoever had them died
answering   THE ROAD of one question: fetch, verify, compose or let a model write, finish
inhand      a question in hand: its answer grows in revisions
drafting    what a model writes, sentence by sentence: only what its passage holds is let through
sifting     filters over passages
showing     an answer as the interface shows it
rechecking  answers whose articles changed: kept, revised or withdrawn
opening     all of it put together for a process
"""
