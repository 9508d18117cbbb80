"""Behaviours written once, for every implementation that promises them; no file here is a test by itself
except `test_over_*`, which name the subjects."""
