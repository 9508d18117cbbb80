"""HTTP handling of the API replica: endpoints, request handler, engine routes, OpenAPI document, background writers.

Paths, keys and admission stand in `deployments.edge`.
"""
