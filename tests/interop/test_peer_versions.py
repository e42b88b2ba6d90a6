"""We and other versions of the peers, those of versions/peers.txt and the newest, read each other.

Run in the environment of peers/requirements.txt, with build/peer-versions beside it
(tools/setup_peer_versions.sh) and the package on PYTHONPATH; versions/write.py writes, and says
what it wrote, and versions/read.py reads.
"""

from __future__ import annotations

import base64
import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
VERSIONS = HERE.parents[1] / "build" / "peer-versions"
DATASET_TOOL = os.environ.get("STOKER_DATASET_TOOL", "")
FORMAT_TOOL = os.environ.get("STOKER_FORMAT_TOOL", "")
SAFETENSORS_TOOL = os.environ.get("STOKER_SAFETENSORS_TOOL", "")
STOKER = os.environ.get("STOKER_COMMAND", "")
pytestmark = pytest.mark.skipif(
    not (DATASET_TOOL and FORMAT_TOOL and SAFETENSORS_TOOL and STOKER),
    reason="STOKER_DATASET_TOOL, STOKER_FORMAT_TOOL, STOKER_SAFETENSORS_TOOL and STOKER_COMMAND "
    "name no programs",
)

LISTED = [
    line.split()[0]
    for line in (HERE / "versions" / "peers.txt").read_text().splitlines()
    if line and not line.startswith("#")
]
# Those that are no format of files with keys: their tests, as they are, with pytest's options.
TESTS = {
    "accelerate": ["test_lightning_interop.py", "-k", "accelerate"],
    "lightning": ["test_lightning_interop.py", "-k", "not accelerate"],
    "megatron-core": ["test_tokens_interop.py"],
    "peft": ["frameworks/test_from_pretrained_interop.py"],
    "transformers": ["frameworks/test_from_pretrained_interop.py"],
}
TESTED = [peer for peer in LISTED if peer.partition("==")[0] in TESTS]
WRITERS = [peer for peer in LISTED if peer not in TESTED]
NEWEST = sorted({line.split("==")[0] for line in WRITERS})
READERS = [peer for peer in WRITERS if not peer.startswith("litdata")]  # whose chunks we only read


def with_version(peer: str, *words: object, path: str = "") -> str:
    """Runs Python with one version of a peer; "NAME" alone is the newest. Returns the output."""
    name, _, version = peer.partition("==")
    place = VERSIONS / f"{name}-{version}"
    environment = dict(os.environ)
    if version:
        assert place.is_dir(), f"{place} is missing: run tools/setup_peer_versions.sh"
        environment["PYTHONPATH"] = str(place) + (os.pathsep + path if path else "")
    command = [sys.executable, *map(str, words)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def lines_of(program: str, peer: str, path: Path) -> list[dict[str, Any]]:
    name = peer.partition("==")[0]
    text = with_version(peer, HERE / "versions" / program, name, path)
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def run(*words: object) -> list[str]:
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout.splitlines()


def shown(field: dict[str, Any], data: bytes) -> list[Any]:
    """A field that a tool has printed, as write.py shows it."""
    match field["type"]:
        case "int64":
            return ["int64", int.from_bytes(data, "little", signed=True)]
        case "float64":
            return ["float64", struct.unpack("<d", data)[0]]
        case "text":
            return ["text", data.decode()]
        case "json":
            return ["json", json.loads(data)]
        case "array":
            return ["array", [field["dtype"], field["shape"], data.hex()]]
    return [field["type"], data.hex()]


def read_directory(path: Path) -> list[dict[str, Any]]:
    kind = "litdata" if path.name.startswith(("trees", "tokens")) else "mds"
    lines = [json.loads(line) for line in run(DATASET_TOOL, "read", kind, path)]
    return [{n: shown(f, bytes.fromhex(f["hex"])) for n, f in line.items()} for line in lines]


def read_shard(path: Path) -> list[dict[str, Any]]:
    samples = []
    for text in run(FORMAT_TOOL, "read", path.suffix[1:], path):
        line = json.loads(text)
        fields = {n: base64.b64decode(value) for n, value in line["fields"].items()}
        # A tar has no types of its own.
        known = {"json": {"type": "json"}} if path.suffix == ".tar" else line.get("types", {})
        types = {n: known.get(n, {"type": "bytes"}) for n in fields}
        samples.append({n: shown(types[n], data) for n, data in fields.items()})
        if line.get("key"):
            samples[-1]["__key__"] = ["text", line["key"]]
    return samples


def read_safetensors(path: Path) -> list[dict[str, Any]]:
    names = {"F32": "<f4", "F64": "<f8", "I64": "<i8"}
    (line,) = run(SAFETENSORS_TOOL, "read", path)
    return [
        {
            name: ["array", [names[tensor["dtype"]], tensor["shape"], tensor["data"]]]
            for name, tensor in json.loads(line)["tensors"].items()
        }
    ]


@pytest.mark.parametrize("peer", [*WRITERS, *NEWEST])
def test_we_read_what_each_version_of_a_peer_writes(tmp_path: Path, peer: str) -> None:
    datasets = lines_of("write.py", peer, tmp_path)
    assert datasets
    for dataset in datasets:
        path = tmp_path / dataset["path"]
        if path.suffix == ".safetensors":
            assert read_safetensors(path) == dataset["samples"]
            continue
        found = read_shard(path) if path.is_file() else read_directory(path)
        assert found == dataset["samples"], path.name
        run(STOKER, "index", path)
        if path.is_dir():
            run(STOKER, "verify", path)


def write_ours(peer: str, folder: Path) -> tuple[Path, list[dict[str, Any]]]:
    """Writes in the format of a peer; returns the path, and what the peer is to read there."""
    np = pytest.importorskip("numpy")
    stoker = pytest.importorskip("stoker")
    if peer.startswith("safetensors"):
        tensors = {"w": np.arange(6, dtype="<f4").reshape(2, 3), "b": np.arange(3)}
        with stoker.Checkpointer(folder / "run") as saver:
            saver.save(1, model=tensors)
        run(STOKER, "checkpoint", "export", folder / "run", "1", folder / "ours.safetensors")
        named = {f"model.{name}": value.tolist() for name, value in tensors.items()}
        return folder / "ours.safetensors", [named]
    formats = {"webdataset": "tar", "mosaicml-streaming": "mds", "tfrecord": "tfrecord"}
    format_name = formats[peer.partition("==")[0]]
    samples = [
        {"__key__": f"{i:03}", "n": i, "b": bytes([i, 255]), "t": "z\u00e9"} for i in range(7)
    ]
    stoker.ingest(samples, folder / "ours", format=format_name)
    shown = [one | {"b": one["b"].hex()} for one in samples]
    if format_name == "tar":  # has no types
        shown = [one | {n: str(one[n]).encode().hex() for n in "nt"} for one in shown]
    if format_name == "tfrecord":
        shown = [one | {"n": [one["n"]]} for one in shown]
        shown = [one | {n: one[n].encode().hex() for n in ("t", "__key__")} for one in shown]
    return folder / "ours", shown


@pytest.mark.parametrize("peer", READERS)
def test_each_version_of_a_peer_reads_what_we_write(tmp_path: Path, peer: str) -> None:
    path, expected = write_ours(peer, tmp_path)
    assert lines_of("read.py", peer, path) == expected


@pytest.mark.parametrize("peer", TESTED)
def test_each_version_of_other_peers_passes_their_tests(peer: str) -> None:
    file, *chosen = TESTS[peer.partition("==")[0]]
    options = ["-q", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", HERE]
    path = os.environ.get("PYTHONPATH", "")
    text = with_version(peer, "-m", "pytest", *options, *chosen, HERE / file, path=path)
    assert " passed" in text
    assert "skipped" not in text
