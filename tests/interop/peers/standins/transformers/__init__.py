"""Stands in for transformers: `streaming` names three of its types."""

from transformers.feature_extraction_utils import BatchFeature
from transformers.tokenization_utils_base import BatchEncoding

__all__ = ["BatchEncoding", "BatchFeature"]
