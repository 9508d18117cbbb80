"""Call an external language model through the OpenAI chat interface; the server is not trusted and is optional.

provider_endpoint  address of the server, time limits, and addresses to which connections are allowed
prompt         question and passages as messages, passages behind a fence; checks of the sentences of the model
stream         parse server-sent events into pieces of text
writer         the client that combines them, with a circuit breaker
"""
