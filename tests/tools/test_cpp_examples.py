"""The examples in C++ beside those in Python: each continues what the other has saved."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker

ROOT = Path(__file__).parents[2]
EXAMPLES = Path(os.environ.get("STOKER_EXAMPLES", ROOT / "build" / "release" / "examples" / "cpp"))
TRAIN = {
    "cpp": [str(EXAMPLES / "train")],
    "python": [sys.executable, str(ROOT / "examples" / "train.py")],
}


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(3)
    samples = (
        {"jpg": rng.integers(0, 80 * (1 + i % 3), 200, np.uint8).tobytes(), "cls": i % 3}
        for i in range(100)
    )
    directory = tmp_path_factory.mktemp("data") / "shards"
    stoker.ingest(samples, directory)
    return directory


def train(language: str, shards: Path, run: Path, *more: str) -> int:
    command = [*TRAIN[language], str(shards), str(run), f"{run}.losses", *more]
    return subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode


def losses(run: Path) -> list[str]:
    return Path(f"{run}.losses").read_text().splitlines()


@pytest.fixture(scope="module")
def unbroken(shards: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    run = tmp_path_factory.mktemp("unbroken") / "run"
    assert train("python", shards, run) == 0
    assert len(losses(run)) == 60
    return losses(run)


def test_both_compute_the_same_to_the_last_bit(
    shards: Path, unbroken: list[str], tmp_path: Path
) -> None:
    assert train("cpp", shards, tmp_path / "run") == 0
    assert losses(tmp_path / "run") == unbroken


@pytest.mark.parametrize("first", ["cpp", "python"])
def test_each_continues_what_the_other_has_saved_when_it_was_killed(
    first: str, shards: Path, unbroken: list[str], tmp_path: Path
) -> None:
    second = "python" if first == "cpp" else "cpp"
    run = tmp_path / "run"
    assert train(first, shards, run, "--die-at", "23") == -signal.SIGKILL
    assert 0 < len(losses(run)) <= 23
    assert train(second, shards, run, "--die-at", "41") == -signal.SIGKILL
    assert train(first, shards, run) == 0
    assert losses(run) == unbroken


def test_a_run_of_other_data_is_refused_before_anything_is_changed(
    shards: Path, tmp_path: Path
) -> None:
    assert train("python", shards, tmp_path / "run", "--steps", "10") == 0
    stoker.ingest(({"jpg": b"x", "cls": 0} for _ in range(20)), tmp_path / "others")
    command = [*TRAIN["cpp"], str(tmp_path / "others"), str(tmp_path / "run"), "losses"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 1
    assert "fingerprint" in done.stderr


def test_tensors_and_batches_get_to_a_device_and_back(tmp_path: Path) -> None:
    """With the driver of tests/gpu; `make gpu` runs the same on a GPU."""
    driver = EXAMPLES.parents[1] / "tests" / "gpu" / "fake"
    done = subprocess.run(
        [str(EXAMPLES / "device"), str(tmp_path)],
        env=os.environ | {"LD_LIBRARY_PATH": str(driver)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "saved, restored and sliced 16789504 bytes",
        "copied 24 batches",
    ]


def serve(*words: Any) -> list[str]:
    command = [str(EXAMPLES / "serve"), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def save_file(tensors: dict[str, np.ndarray[Any, Any]], path: Path) -> None:
    """Writes a safetensors file without its library."""
    header, data = {}, b""
    for name, array in tensors.items():
        begin = len(data)
        data += array.tobytes()
        header[name] = {
            "dtype": {"float32": "F32", "int64": "I64"}[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [begin, len(data)],
        }
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def digest_of(array: np.ndarray[Any, Any], directory: Path) -> str:
    """The digest of an array, as Stoker's own checkpoints have it."""
    with stoker.Checkpointer(directory) as saver:
        saver.save(1, a=np.ascontiguousarray(array)).wait()
    manifest = json.loads((directory / "step-000000000001" / "manifest.json").read_text())
    return str(manifest["tensors"][0]["digest"])


def test_serving_reads_what_python_reads(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    first = {"a": rng.random((6, 5), np.float32), "b": np.arange(4)}
    second = {"c.d": rng.random((7,), np.float32)}
    folder = tmp_path / "model"
    folder.mkdir()
    save_file(first, folder / "model-1.safetensors")
    save_file(second, folder / "model-2.safetensors")
    places = dict.fromkeys(first, "model-1.safetensors") | {"c.d": "model-2.safetensors"}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    with stoker.Checkpointer(tmp_path / "run") as saver:
        saver.save(7, model=first | second).wait()
    part = digest_of(first["a"][2:5], tmp_path / "part")
    whole = digest_of(second["c.d"], tmp_path / "whole")
    names = ["a F32 [6, 5]", "b I64 [4]", "c.d F32 [7]"]
    plain = "not verified: the files have no checksums"
    assert serve(folder) == names
    assert serve(folder / "model-1.safetensors") == names[:2]
    assert serve(folder, "a", 2, 5) == [f"a F32 [3, 5] {part} {plain}"]
    assert serve(folder, "c.d") == [f"c.d F32 [7] {whole} {plain}"]
    assert serve(tmp_path / "run") == [f"model.{name}" for name in names]
    for path in ("run/latest", "run/7"):
        assert serve(tmp_path / path, "model.a", 2, 5) == [f"model.a F32 [3, 5] {part} verified"]


def test_damage_and_wrong_names_are_said(tmp_path: Path) -> None:
    with stoker.Checkpointer(tmp_path / "run") as saver:
        saver.save(7, w=np.zeros(4)).wait()
    file = tmp_path / "run" / "step-000000000007" / "rank-00000.safetensors"
    file.chmod(0o644)
    data = bytearray(file.read_bytes())
    data[4097] = 1
    file.write_bytes(data)
    for words, said in ((["w"], "does not match"), (["v"], "there is no tensor v")):
        command = [str(EXAMPLES / "serve"), str(tmp_path / "run"), *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert said in done.stderr or "checksum" in done.stderr
