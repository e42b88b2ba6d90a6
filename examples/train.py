"""A training that may be killed at any moment: python train.py SHARDS CHECKPOINTS LOSSES.

A softmax regression on how often each byte value comes in a sample. Run it again after a kill: it
continues from the last committed checkpoint, with the samples and the losses of an unbroken run.
So does examples/cpp/train.cc, from the checkpoints of this program: both compute the same, to the
last bit.
"""

from __future__ import annotations

import argparse
import math
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import stoker

CLASSES, FEATURES = 3, 256
exp, log = np.vectorize(math.exp), np.vectorize(math.log)  # those of the C library


def total(values: NDArray[Any], axis: int) -> NDArray[Any]:
    """The sum along an axis, one value after the other: the order of sum() and @ is NumPy's own."""
    last: NDArray[Any] = np.cumsum(values, axis).take(-1, axis)
    return last


def features(batch: dict[str, Any]) -> NDArray[Any]:
    """How often each byte value comes in each sample."""
    counts = [np.bincount(np.frombuffer(jpg, np.uint8), minlength=FEATURES) for jpg in batch["jpg"]]
    return np.array([count / count.sum() * FEATURES for count in counts])


def train_step(model: dict[str, NDArray[Any]], x: NDArray[Any], labels: NDArray[Any]) -> float:
    """One step of gradient descent; the loss before it."""
    count = len(labels)
    scores = total(x[:, :, None] * model["weights"], 1) + model["bias"]  # x @ weights + bias
    likely = exp(scores - scores.max(axis=1, keepdims=True))
    likely /= total(likely, 1)[:, None]
    loss = total(-log(likely[np.arange(count), labels]), 0) / count
    likely[np.arange(count), labels] -= 1
    model["weights"] -= 0.01 * total(x[:, :, None] * likely[:, None, :], 0) / count
    model["bias"] -= 0.01 * total(likely, 0) / count
    return float(loss)


def main() -> None:
    """Trains from the last checkpoint, or from the beginning, to the last step."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shards")
    parser.add_argument("checkpoints")
    parser.add_argument("losses", type=Path, help="a line for each step is written here")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--die-at", type=int, help="kill -9 after this step")
    arguments = parser.parse_args()
    model = {"weights": np.zeros((FEATURES, CLASSES)), "bias": np.zeros(CLASSES)}
    loader = stoker.Loader(
        arguments.shards, batch_size=6, seed=7, epochs=None, fields={"jpg": bytes, "cls": int}
    )
    with stoker.Checkpointer(arguments.checkpoints, keep_last=2) as saver:
        done = saver.restore(model=model, loader=loader) or 0
        print(f"restored step {int(done)}" if done else "from the beginning", flush=True)
        # What was logged after the last checkpoint comes again.
        kept = arguments.losses.read_text().splitlines(keepends=True)[:done] if done else []
        with arguments.losses.open("w") as lines:
            lines.writelines(kept)
            for step, batch in loader.steps():
                loss = train_step(model, features(batch), np.asarray(batch["cls"]))
                print(step, loss.hex(), file=lines, flush=True)
                if saver.due(step, every_steps=5):
                    saver.save(step, model=model, loader=loader, reference={"loss": loss})
                if step == arguments.die_at:
                    os.kill(os.getpid(), signal.SIGKILL)
                if step == arguments.steps:
                    break
    loader.close()


if __name__ == "__main__":
    main()
