"""Answers of the past: an app's state at a moment is rebuilt, and a logged request runs on it."""
