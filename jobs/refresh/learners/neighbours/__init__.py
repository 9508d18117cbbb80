"""Learners whose model is one sparse matrix of weights between items."""
