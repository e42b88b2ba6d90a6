"""A small language model on the bytes of a text, or on tokens, that may be killed at any moment.

    python examples/language_model.py README.md run/lm
    torchrun --nproc-per-node=2 examples/language_model.py corpus.npy run/lm --vocabulary 50257

The same command continues where the last one has ended: after a kill, after a signal that asked it
to stop, and with another number of processes. The losses are those of a run without an end.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

import stoker

CONTEXT, WIDTH, HEADS, LAYERS = 64, 64, 4, 2


class Model(nn.Module):
    """A transformer that predicts the next token at every place."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, WIDTH)
        self.places = nn.Embedding(CONTEXT, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, dropout=0.1, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, LAYERS)
        self.head = nn.Linear(WIDTH, vocabulary)
        mask = nn.Transformer.generate_square_subsequent_mask(CONTEXT)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Scores of all tokens of the vocabulary, at each place."""
        x = self.tokens(tokens) + self.places.weight
        scores: torch.Tensor = self.head(self.layers(x, mask=self.mask, is_causal=True))
        return scores


def main() -> None:
    """Trains from the last checkpoint, or from the beginning."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", help="a text, or tokens in a .npy file")
    parser.add_argument("run", help="directory of the checkpoints")
    parser.add_argument("--vocabulary", type=int, default=256)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--every", type=int, default=100, help="steps between two checkpoints")
    args = parser.parse_args()

    rank = int(os.environ.get("RANK", 0))
    on_gpu = torch.cuda.is_available()
    device = f"cuda:{os.environ.get('LOCAL_RANK', 0)}" if on_gpu else "cpu"
    if "RANK" in os.environ:  # torchrun, or examples/train_slurm.sh
        dist.init_process_group("nccl" if on_gpu else "gloo")
    torch.manual_seed(1)
    model: nn.Module = Model(args.vocabulary).to(device)
    if dist.is_initialized():
        model = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    is_text = not args.data.endswith(".npy")
    data = stoker.Dataset(args.data, format="raw", dtype="uint8") if is_text else args.data
    loader = stoker.Loader(
        stoker.Tokens(data, window=CONTEXT, extra=1, dtype="int64"),
        global_batch_size=16,
        seed=1,
        epochs=None,
        total_epochs=args.epochs,
        device=device if on_gpu else None,
    )
    state: dict[str, Any] = {"model": model, "optimizer": optimizer, "loader": loader, "rng": True}
    with (
        stoker.Preemption(grace="90s") as stop,
        stoker.Checkpointer(args.run, keep_last=2) as saver,
    ):
        step = saver.restore(**state) or 0  # None if there is no checkpoint yet
        for step, batch in loader.steps():
            scores = model(batch["tokens"][:, :-1])
            loss = cross_entropy(scores.flatten(0, 1), batch["tokens"][:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if rank == 0:
                print(f"step {step}: {loss.item():.6f}", flush=True)  # of its part of the batch
            if stop.requested(step):
                break
            if saver.due(step, every_steps=args.every):
                saver.save(step, **state)
        if saver.due(step, every_steps=1):  # the last one, unless it has just been saved
            saver.save(step, **state)
    if stop.stopped and "SLURM_JOB_ID" in os.environ and "SIGTERM" not in stop.reason:
        stop.requeue()  # a job that is preempted, by a SIGTERM, is requeued by Slurm itself
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
