"""Administration over HTTP under `/v1/admin`: every operation of `deployments.operations`, for programs and pages.

authentication  who sends a request: a personal token, or the session of the console
arguments       path, query string and body to the arguments of an operation
endpoint        the ASGI application, which finds the operation of a path and a method
openapi         the description
"""
