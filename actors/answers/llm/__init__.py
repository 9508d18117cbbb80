"""Call an external language model through the OpenAI chat interface; the server is not trusted and is optional.

provider_endpoint  address of the server, time limits, and addresses to which connections are allowed
prompt             question and passages as messages, passages behind a fence
stream             parse server-sent events into pieces of text
draft              the sentences of the model that their cited passage supports
model_breaker      stop calls to a provider while it fails
writer             the client that combines them
"""
