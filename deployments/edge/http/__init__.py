"""HTTP beneath all surfaces: requests, replies, errors, client addresses, the access log."""
