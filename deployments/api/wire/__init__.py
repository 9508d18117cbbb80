"""Request and reply models of the REST interface, one file a resource."""
