"""Reports for operators and publishers, and the support bundle."""
