"""Shared code of the comparisons with other packages."""
