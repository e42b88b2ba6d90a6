"""Writes the golden files of this folder, with safetensors 0.8.0 and NumPy 2.4.6.

Run in an environment that has them: `python make_golden.py`.

numpy.safetensors   what safetensors.numpy.save makes of the arrays below, with metadata
"""

from pathlib import Path

import numpy as np
from safetensors.numpy import save

FOLDER = Path(__file__).parent

ARRAYS = {
    "w": np.arange(6, dtype=np.float32).reshape(2, 3),
    'b "é"': np.array([1, -2], dtype=np.int64),
    "empty": np.zeros((0, 7), dtype=np.float16),
    "scalar": np.array(True),
}

if __name__ == "__main__":
    (FOLDER / "numpy.safetensors").write_bytes(save(ARRAYS, metadata={"format": "pt"}))
