"""Saves that run in the background."""
