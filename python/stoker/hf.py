"""Stoker under Hugging Face's Trainer. It imports Transformers when a training needs it.

>>> class Trainer(stoker.hf.TrainerMixin, transformers.Trainer): ...
"""

from stoker._frameworks.hf_trainer import TrainerMixin

__all__ = ["TrainerMixin"]
