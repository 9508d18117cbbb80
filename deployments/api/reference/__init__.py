"""The texts and examples of the OpenAPI document: data files and the code that adds them to schemas.

fields.toml      what each field of a request, response and address means
operations.toml  what each operation returns, and what its 404 means
examples.json    one request and response for each operation, in an order in which they can be sent
"""
