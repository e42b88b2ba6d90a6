"""Shared by the parts of the package."""
