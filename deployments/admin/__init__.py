"""Administration over HTTP under `/v1/admin`: every operation of `deployments.operations`, for programs and pages.

authentication  who sends a request: a personal token, or the session of the console
paths           path and method to an operation
arguments       path, query string and body to the arguments of an operation
endpoint        the ASGI application
openapi         the description
"""
