"""stoker.load(device=): all tensors at once, of checkpoints and of safetensors folders."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker

torch = pytest.importorskip("torch", reason="torch is not installed")


def header_of(tensors: dict[str, Any]) -> bytes:
    entries, end = {}, 0
    for name, tensor in tensors.items():
        begin, end = end, end + tensor.numel() * tensor.element_size()
        kind = {torch.float32: "F32", torch.bfloat16: "BF16", torch.int64: "I64"}[tensor.dtype]
        entries[name] = {"dtype": kind, "shape": [*tensor.shape], "data_offsets": [begin, end]}
    text = json.dumps(entries).encode()
    return len(text).to_bytes(8, "little") + text


def write_plain(path: Path, tensors: dict[str, Any]) -> None:
    """As the safetensors library writes it."""
    bodies = [tensor.reshape(-1).view(torch.uint8).numpy().tobytes() for tensor in tensors.values()]
    path.write_bytes(header_of(tensors) + b"".join(bodies))


def parts() -> list[dict[str, Any]]:
    torch.manual_seed(3)
    big = torch.randn(1500, 1001)  # more than one chunk, and odd offsets behind it
    return [
        {"embed": big, "norm": torch.randn(7).bfloat16()},
        {"head": torch.arange(11), "scale": torch.tensor(2.5), "none": torch.empty(0, 3)},
    ]


def write_folder(path: Path, *, index: str | None = "model.safetensors.index.json") -> None:
    path.mkdir()
    places = {}
    for number, tensors in enumerate(parts(), 1):
        name = f"model-{number:05}-of-00002.safetensors"
        write_plain(path / name, tensors)
        places.update(dict.fromkeys(tensors, name))
    if index is not None:
        (path / index).write_text(json.dumps({"metadata": {}, "weight_map": places}))


def check(found: dict[str, Any]) -> None:
    wanted = {name: tensor for part in parts() for name, tensor in part.items()}
    assert type(found) is dict
    assert found.keys() == wanted.keys()
    for name, tensor in wanted.items():
        assert found[name].dtype == tensor.dtype
        assert found[name].shape == tensor.shape
        assert torch.equal(found[name], tensor)


@pytest.mark.parametrize(
    "index", ["model.safetensors.index.json", "x.safetensors.index.json", None]
)
def test_a_folder_of_a_model_is_loaded_as_one(tmp_path: Path, index: str | None) -> None:
    write_folder(tmp_path / "m", index=index)
    check(stoker.load(tmp_path / "m", device="cpu"))
    if index is not None:
        check(stoker.load(tmp_path / "m" / index, device="cpu"))
    lazy = stoker.load(tmp_path / "m")
    assert np.array_equal(lazy["embed"][3:5, 7], parts()[0]["embed"][3:5, 7])


def test_links_of_a_folder_are_followed_as_in_the_cache_of_the_hub(tmp_path: Path) -> None:
    write_folder(tmp_path / "m")
    (tmp_path / "blobs").mkdir()
    for file in list((tmp_path / "m").iterdir()):
        blob = tmp_path / "blobs" / str(abs(hash(file.name)))
        file.rename(blob)
        file.symlink_to(os.path.relpath(blob, file.parent))
    check(stoker.load(tmp_path / "m", device="cpu"))


def test_a_file_is_loaded_to_a_device(tmp_path: Path) -> None:
    write_plain(tmp_path / "a.safetensors", parts()[0])
    found = stoker.load(tmp_path / "a.safetensors", device=torch.device("cpu"))
    assert torch.equal(found["embed"], parts()[0]["embed"])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "it is not JSON"),
        ("[]", "no weight_map"),
        ('{"weight_map": {"a": 1}}', "no weight_map"),
        ('{"weight_map": {"a": "../m.safetensors"}}', "not the name of a file"),
        ('{"weight_map": {"a": "gone.safetensors"}}', "missing file"),
        ('{"weight_map": {"a": "model-00001-of-00002.safetensors"}}', "there is no a, which"),
    ],
)
def test_an_index_that_is_wrong_is_refused(tmp_path: Path, text: str, why: str) -> None:
    write_folder(tmp_path / "m")
    (tmp_path / "m" / "model.safetensors.index.json").write_text(text)
    with pytest.raises(stoker.CorruptError, match=why):
        stoker.load(tmp_path / "m", device="cpu")


def test_a_name_in_two_files_is_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_plain(tmp_path / f"{name}.safetensors", parts()[1])
    with pytest.raises(stoker.CorruptError, match=r"tensor head .*another file"):
        stoker.load(tmp_path, device="cpu")


def test_several_indexes_are_a_question(tmp_path: Path) -> None:
    write_folder(tmp_path / "m", index="a.safetensors.index.json")
    (tmp_path / "m" / "b.safetensors.index.json").write_text("{}")
    with pytest.raises(ValueError, match="several indexes"):
        stoker.load(tmp_path / "m")


def test_a_checkpoint_is_loaded_with_ties_and_odd_types(tmp_path: Path) -> None:
    shared = torch.randn(1200, 1000)
    tree = {"a": shared, "b": shared, "z": np.array([1 + 2j, 3j]), "half": shared[:3].bfloat16()}
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state=tree)
    found = stoker.load(tmp_path, device="cpu")
    assert torch.equal(found["state.a"], shared)
    assert found["state.a"] is found["state.b"]
    assert torch.equal(found["state.half"], shared[:3].bfloat16())
    assert found["state.z"].dtype == torch.complex128
    assert found["state.z"].tolist() == [1 + 2j, 3j]


def test_what_torch_lacks_is_named(tmp_path: Path) -> None:
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state={"when": np.array(["2026-11-18"], "datetime64[D]")})
    with pytest.raises(ValueError, match=r"state.when: .*: load it without a device"):
        stoker.load(tmp_path, device="cpu")


def test_damage_is_found_and_named(tmp_path: Path) -> None:
    with stoker.Checkpointer(tmp_path) as saver:
        saver.save(1, state={"w": torch.ones(2_000_000)})
    (file,) = (tmp_path / "latest").glob("*.safetensors")
    with file.open("r+b") as opened:
        opened.seek(5_000_000)
        opened.write(b"\xff")
    with pytest.raises(stoker.CorruptError) as caught:
        stoker.load(tmp_path, device="cpu")
    assert caught.value.tensor == "state.w"
