"""Call an external language model through the OpenAI chat interface; the server is not trusted and is optional.

model_config   address of the server, and time limits
address        addresses to which connections are allowed
breaker        circuit breaker: no calls while the server fails
prompt         question and passages as messages; passages are data behind a fence
stream         parse server-sent events into pieces of text
writer         the `AnswerWriter` that combines them
"""
