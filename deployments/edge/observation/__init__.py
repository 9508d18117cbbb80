"""What a replica tells of itself: traces, slow requests, live figures, readiness."""
