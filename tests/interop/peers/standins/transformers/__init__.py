"""Stands in for transformers: `streaming` names three of its types."""
