"""HTTP handling of the API replica: paths, admission, request handler, OpenAPI document, background writers."""
