"""stoker.plan: the worked examples, and every formula computed again from its text."""

from __future__ import annotations

import inspect
import math
import re
from pathlib import Path
from typing import Any

import pytest

from stoker import _native, plan

CONSTANTS = {"day": 86400.0, "month": 30 * 86400.0, "GB": 1e9, "TFLOP": 1e12, "B": 1.0}
FUNCTIONS = {"sqrt": math.sqrt, "exp": math.exp, "floor": math.floor, "min": min, "max": max}


def ceil(number: float) -> int:
    nearest = round(number)
    return nearest if abs(number - nearest) <= 1e-9 * nearest else math.ceil(number)


EXAMPLES = [
    plan.read(gpus=8, batch=256, sample="130KB", step="200ms", fed="1GB/s", read_rate="6.5GB/s"),
    plan.epoch(samples=1e12, sample="4B", time="30d", gpus=2000),
    plan.epoch(dataset="20TB", rate="102.4MB/s"),
    plan.checkpoint(
        parameters=70e9,
        drives=8,
        write_rate="6.5GB/s",
        read_rate="7GB/s",
        interval="500s",
        links=8,
        link_rate="55GB/s",
        gpus=8,
        price="3USD/h",
    ),
    plan.checkpoint(parameters=70e9, precision="fp32", optimizer="momentum"),
    plan.interval(
        save="60s", blocked="2s", mtbf="3h", interval="1h", step="2s", gpus=512, price="3USD/h"
    ),
    plan.interval(save="60s", gpus=16384, gpu_mtbf="50000h"),
    plan.endurance(
        size="140GB",
        writes="48/d",
        tbw="700TB",
        capacity="4TB",
        time="90d",
        write_amplification=1.5,
        used="10%",
    ),
    plan.cliff(size="140GB", from_="example-qlc-4tb"),
    plan.raid(drives=8, read_rate="6.5GB/s", slowest_rate="6GB/s", shared_rate="50GB/s"),
    plan.targets(
        read_load="102.4MB/s",
        write_size="2TB",
        write_time="10s",
        target_rate="4GB/s",
        stored="1PB",
        target_capacity="15TB",
        dataset="20TB",
        target_price="900USD",
    ),
    plan.share(targets=40, target_rate="4GB/s", clients=100, nic_rate="3GB/s"),
    plan.stall(gpus=512, price="3USD/h", stall="60s", stalls="4/h", time="7d"),
    plan.stall(gpus=512, price="3USD/h", busy="80%", busy_after="95%"),
    plan.rule(flops="16000TFLOP/s", read_rate="7GB/s", needed="10GB/s"),
    plan.prefetch(depth=4, batch=256, decoded="602112B", workers=8, memory="64GiB"),
    plan.objects(
        dataset="20TB", object="256MiB", rate="10GB/s", epochs=3, transfer_price="0.09USD/GiB"
    ),
    plan.path(storage_rate="40GB/s", nic_rate="50GB/s", memory_rate="60GB/s"),
    plan.iops(
        rate="1.3312GB/s",
        request="130KB",
        read_iops="900000/s",
        files=14e6,
        metadata_rate="50000/s",
    ),
    plan.tracking(runs=1000, metrics=50, steps=1e5, every=10, artifacts=3, artifact="2GB"),
]


@pytest.mark.parametrize("answer", EXAMPLES, ids=lambda answer: answer.to_dict()["kind"])
def test_every_formula_computed_from_its_text_gives_its_value(answer: plan.Answer) -> None:
    content = answer.to_dict()
    names = {name: given.get("value") for name, given in content["inputs"].items()} | CONSTANTS
    for step in content["steps"]:
        if "argmax" not in step["formula"]:  # test_interval of C++ compares it with its neighbours
            again = eval(step["formula"], {"ceil": ceil, **FUNCTIONS, **names})
            assert again == pytest.approx(step["value"], rel=1e-9, abs=1e-12), step
        names[step["name"]] = step["value"]


def test_the_worked_examples() -> None:
    read, _, _, checkpoint, *_ = EXAMPLES
    assert read.needed == 1.3312e9
    assert read.file_operations_per_second == 30720
    assert round(checkpoint.write_time, 3) == 18.846
    assert round(checkpoint.asynchronous_loss * 100, 5) == 0.44348
    w3 = plan.interval(save="60s", mtbf="10800s", restart="300s")
    assert (round(w3.young, 2), round(w3.daly, 2)) == (1138.42, 1098.77)
    assert (round(w3.goodput_young, 5), round(w3.goodput_daly, 5)) == (0.87360, 0.87365)
    assert round(plan.read(gpus=1, from_="mlperf-unet3d-h100").needed / 1e9, 4) == 3.1771
    assert round(plan.read(gpus=1, from_="mlperf-resnet50-h100").needed / 1e6, 2) == 204.75
    assert round(plan.read(gpus=1, from_="mlperf-cosmoflow-h100").needed / 1e6, 2) == 808.14


def test_the_seconds_of_a_run_are_given_as_its_log_has_them() -> None:
    line = "saved step 1000: 4.29 GB, blocked 0.08 s, written in 2.10 s (2.04 GB/s)"
    assert line in (Path(__file__).parents[3] / "docs" / "checkpoints.md").read_text()
    blocked, written = re.findall(r"(?:blocked|written in) ([\d.]+ s)", line)
    answer = plan.interval(save=written, blocked=blocked, mtbf="12h")
    assert answer.stall == 0.08
    assert answer.unseen == pytest.approx(2.02)
    assert answer.best == pytest.approx(math.sqrt(2 * 0.08 * 43200), rel=0.01)


def test_there_is_a_function_for_every_kind_with_its_fields() -> None:
    kinds = {kind["name"]: kind for kind in _native.plan_kinds()}
    made = {n: v for n, v in vars(plan).items() if isinstance(v, plan.Calculator)}
    assert made.keys() == kinds.keys() == set(plan.__all__) - {"Answer", "Calculator", "devices"}
    for name, function in made.items():
        fields = {field["name"] for field in kinds[name]["fields"]}
        assert inspect.signature(function).parameters.keys() == fields
        assert kinds[name]["question"] in (function.__doc__ or "")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"sample": 130}, 'sample: "130" has no unit'),
        ({"sample": "130KB/s"}, "sample: .* is a rate of bytes"),
        ({"gpus": 0}, "gpus: is zero"),
        ({"gpus": -1}, "gpus: .* is negative"),
        ({"gpus": math.nan}, "gpus: "),
        ({"gpus": math.inf}, "gpus: "),
        ({"gpus": 1e25}, "gpus: is larger"),
        ({"gpus": None}, "gpus: is missing"),
        ({"gpu": 8}, "gpu: read has no such field"),
    ],
)
def test_bad_input_names_the_field(fields: dict[str, Any], said: str) -> None:
    good: dict[str, Any] = {"gpus": 8, "batch": 256, "sample": "130KB", "step": "200ms"}
    with pytest.raises(ValueError, match=said):
        plan.read(**(good | fields))


def test_other_types_are_refused() -> None:
    with pytest.raises(TypeError, match="sample: expected a text"):
        plan.read(gpus=8, batch=1, sample=b"1KB", step="1s")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="gpus"):
        plan.read(gpus=True, batch=1, sample="1KB", step="1s")


def test_an_answer_shows_itself() -> None:
    answer = EXAMPLES[0]
    assert str(answer).startswith("How fast must storage be for my GPUs?\n(GB = 10^9 bytes")
    assert "needed=1.3312e+09" in repr(answer)
    assert answer.values["needed"] == answer.needed
    assert "needed" in dir(answer)
    assert answer.svg is None
    assert (plan.interval(save="60s", mtbf="3h").svg or "").startswith("<svg ")
    with pytest.raises(AttributeError, match="no step speed"):
        _ = answer.speed


def test_files_of_ones_own(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text('[[ssd]]\nname = "mine"\nsource = "us, 2026"\nread_rate = "2GB/s"\n')
    assert plan.raid(drives=3, from_=["mine"], catalogue=mine).drives_rate == 6e9
    assert plan.devices(mine)[0]["values"] == {"read_rate": "2GB/s"}
    with pytest.raises(FileNotFoundError, match="catalogue"):
        plan.devices(tmp_path)
    mine.write_bytes(b"\xff")
    with pytest.raises(ValueError, match="not UTF-8"):
        plan.devices(mine)
    mine.write_text("#" * (2 << 20))
    with pytest.raises(ValueError, match="larger than 1 MiB"):
        plan.devices(mine)


def test_a_cluster_is_planned_from_the_example(tmp_path: Path) -> None:
    source = Path(__file__).parents[3] / "src" / "plan" / "workload.toml"
    answer = plan.cluster(workload=source)
    assert answer.nodes == 125
    assert plan.cluster(workload=source, gpus=2000).nodes == 250
    assert re.search(r"^  NVMe cache +dataset, 2 saves ", str(answer), re.MULTILINE)
    content = answer.to_dict()
    names = {name: given.get("value") for name, given in content["inputs"].items()} | CONSTANTS
    for step in content["steps"]:
        again = eval(step["formula"], {"ceil": ceil, **FUNCTIONS, **names})
        assert again == pytest.approx(step["value"], rel=1e-9), step
        names[step["name"]] = step["value"]
