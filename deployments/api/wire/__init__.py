"""Request and reply models of the REST interface, one module for each resource."""
