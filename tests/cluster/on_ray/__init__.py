"""Tests of one folder share a fixture of package scope, which needs a package."""
