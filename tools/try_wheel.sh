#!/usr/bin/env bash
# try_wheel.sh BIN FOLDER: uses the package and the command in the environment whose programs are in BIN:
# packs, streams, verifies, trains, is killed, resumes. FOLDER must not exist.
set -euo pipefail

bin=$1 folder=$2
export PATH=$bin:$PATH
mkdir "$folder"
cd "$folder"
unset PYTHONPATH

stoker --version
for i in 0 1 2 3 4 5 6 7; do printf '{"text": "sample %s", "cls": %s}\n' "$i" "$i"; done >samples.jsonl
stoker pack samples.jsonl shards >packed
stoker verify shards >verified
stoker stream shards --batch-size 2 >streamed
stoker completion bash | bash -n
cat >train.py <<'PROGRAM'
import os
import signal
import sys

import numpy as np
import stoker

model = {"weights": np.zeros(3)}
loader = stoker.Loader("shards", batch_size=2, seed=7, fields={"cls": int})
with stoker.Checkpointer("run") as saver:
    restored = saver.restore(model=model, loader=loader) or 0
    print("resumed at step", int(restored))
    for step, batch in loader.steps():
        model["weights"] += float(batch["cls"].sum())
        saver.save(step, model=model, loader=loader).wait()
        if len(sys.argv) > 1 and step == int(sys.argv[1]):
            os.kill(os.getpid(), signal.SIGKILL)
assert model["weights"].tolist() == [28.0] * 3, model
PROGRAM
python train.py 3 && exit 1
python train.py
stoker checkpoint verify run --all >checked
# A part of the command that is written in Python finds this Python.
stoker checkpoint export run latest model.pt >exported 2>&1 || true
grep -q "torch" exported
echo "the wheel works"
