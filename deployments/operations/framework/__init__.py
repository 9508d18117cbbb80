"""What every use case of the administration shares.

operation       what a use case is: name, right, place in HTTP, arguments, call
principal       who performs it, and what that person may do
services        what the use cases work on
operation_executor  authorizes, validates, performs and records an operation
result_cache    results that several callers share for a moment
app_lookup      the app of an operation     rest_client writes through the REST API
examples        the example calls and results that the reference shows, from `examples.json`
"""
