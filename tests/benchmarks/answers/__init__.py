"""Answers: how good they are, and how fast."""
