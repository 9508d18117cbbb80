"""Answer questions from an archive of articles.

extractive/           select, check and cite sentences, without a language model
llm/                  an external language model: streaming, deadlines, circuit breaker
repeated_questions    ask a user's question again because of new content
leased_questions      claim and answer questions, also those of crashed workers
answer_pipeline       answer one question: retrieve, verify, compose or let a model write, finish
answer_digest         recognize equal questions over equal passages, which reuse an answer
text_generation       write short texts about given products with the language model
leased_answer         write revisions of an answer while this process holds its question
passage_filter        filters over passages
render                an answer in the formats of the interface, with pictures of products
affiliate_products    products of partners beside an answer
citation_recheck      keep, revise or withdraw answers whose articles changed
client                the client of questions, and how a process opens it
"""
