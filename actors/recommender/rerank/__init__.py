"""Rerank."""
