"""Administration over HTTP: `/v1/admin`."""
