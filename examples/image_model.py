"""A small classifier of images in tar shards, that may be killed at any moment.

    stoker pack images shards --shuffle-seed 1
    python examples/image_model.py shards run/images
    torchrun --nproc-per-node=2 examples/image_model.py shards run/images

``images`` has a directory of JPEG or PNG files for each class. The same command continues where the
last one has ended, also with another number of processes.
"""

from __future__ import annotations

import argparse
import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from PIL import Image
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

import stoker

SIDE = 32


def decode(sample: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """Runs in the loader's threads; a resumed run gets the same random numbers."""
    image = Image.open(io.BytesIO(sample["image"])).convert("RGB").resize((SIDE, SIDE))
    pixels = np.asarray(image, np.float32).transpose(2, 0, 1) / 255
    if rng.random() < 0.5:
        pixels = pixels[:, :, ::-1]
    return {"image": np.ascontiguousarray(pixels), "cls": sample["cls"]}


def block(inputs: int, outputs: int) -> nn.Module:
    """Half the width and height, more channels."""
    conv = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2))


def main() -> None:
    """Trains from the last checkpoint, or from the beginning."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shards")
    parser.add_argument("run", help="directory of the checkpoints")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--every", type=int, default=100, help="steps between two checkpoints")
    args = parser.parse_args()

    rank = int(os.environ.get("RANK", 0))
    on_gpu = torch.cuda.is_available()
    device = f"cuda:{os.environ.get('LOCAL_RANK', 0)}" if on_gpu else "cpu"
    if "RANK" in os.environ:  # torchrun
        dist.init_process_group("nccl" if on_gpu else "gloo")
    torch.manual_seed(1)
    classes = len(json.loads(Path(args.shards, "classes.json").read_text()))
    last = nn.Linear(64 * (SIDE // 8) ** 2, classes)
    model: nn.Module = nn.Sequential(
        block(3, 16), block(16, 32), block(32, 64), nn.Flatten(), last
    ).to(device)
    if dist.is_initialized():
        model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs)

    loader = stoker.Loader(
        args.shards,
        global_batch_size=16,  # of all processes together
        seed=1,
        epochs=None,
        total_epochs=args.epochs,
        fields={"image": stoker.Field("jpg;jpeg;png", bytes), "cls": int},
        map=decode,
        device=device if on_gpu else None,
    )
    state: dict[str, Any] = {
        "model": model,
        "optimizer": optimizer,
        "scheduler": scheduler,
        "loader": loader,
    }
    with stoker.Checkpointer(args.run, keep_last=2) as saver:
        saver.restore(**state)
        for step, batch in loader.steps():
            loss = cross_entropy(model(batch["image"]), batch["cls"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if rank == 0:
                print(f"step {step}: {loss.item():.6f}", flush=True)  # of its part of the batch
            if loader.epoch_is_done:
                scheduler.step()
            if loader.epoch_is_done or saver.due(step, every_steps=args.every):
                saver.save(step, **state)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
