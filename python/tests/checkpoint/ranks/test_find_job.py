"""Which processes are the ranks of one job: by job=, a launcher's words, or who started them."""

from __future__ import annotations

from pathlib import Path

import pytest

import stoker
from stoker import _native
from stoker._checkpoint.ranks.job import find_job
from stoker._common.ranks import Ranks

_TORCHRUN = {"RANK": "1", "WORLD_SIZE": "4", "TORCHELASTIC_RUN_ID": "7", "MASTER_ADDR": "node7"}
_SLURM = {"SLURM_PROCID": "1", "SLURM_NTASKS": "4", "SLURM_JOB_ID": "12", "SLURM_STEP_ID": "0"}
_OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "4",
    "PMIX_NAMESPACE": "prterun-7",
}
_LAUNCHERS = {"torchrun": _TORCHRUN, "SLURM": _SLURM, "Open MPI": _OPEN_MPI}


def _rank(local_world_size: int = 1, world_size: int = 4) -> Ranks:
    return Ranks(1, world_size, local_world_size, "test")


@pytest.fixture
def launcher(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Who has started this process: at first nobody that is known."""
    started = {"by": ""}
    monkeypatch.setattr(_native, "find_launcher", lambda _: started["by"])
    return started


@pytest.mark.parametrize(
    "words",
    [
        {},
        {"RANK": "1", "WORLD_SIZE": "4"},  # these say nothing of the start
        {"SLURM_PROCID": "1", "SLURM_NTASKS": "4"},
        {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4"},
        {**_TORCHRUN, "WORLD_SIZE": "2"},  # of others than these ranks
        {**_SLURM, "SLURM_PROCID": "0"},
    ],
)
def test_ranks_of_which_nothing_is_known_need_a_job(
    launcher: dict[str, str], words: dict[str, str]
) -> None:
    with pytest.raises(ValueError, match=r"nothing says which processes they are.*Give job="):
        find_job(_rank(), None, words)
    launcher["by"] = "boot/1 77 5"
    found = find_job(_rank(), None, words)
    assert launcher["by"] in found.name
    assert found.is_local
    assert not found.is_given
    assert not found.by_store


def test_one_rank_needs_nothing(launcher: dict[str, str]) -> None:
    assert launcher["by"] == ""
    assert find_job(Ranks(0, 1, 1, "test"), None, {}).name == "alone"


def test_a_given_job_comes_before_all_else(launcher: dict[str, str]) -> None:
    launcher["by"] = "boot/1 77 5"
    plain = find_job(_rank(), "a", {})
    assert plain.is_given
    assert not plain.is_local
    assert plain.rank_variable == ""
    assert find_job(_rank(), "b", {}).name != plain.name
    for words in _LAUNCHERS.values():
        launched = find_job(_rank(), "a", words)
        assert launched.name == plain.name
        assert launched.is_given
        assert launched.rank_variable == next(iter(words))


@pytest.mark.parametrize("job", ["", 7, b"a"])
def test_a_job_is_a_text(job: object) -> None:
    with pytest.raises(ValueError, match="job= is a text"):
        find_job(_rank(), job, _SLURM)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("launched_by", "word", "values"),
    [
        ("torchrun", "TORCHELASTIC_RUN_ID", ("7", "8")),
        ("torchrun", "TORCHELASTIC_RESTART_COUNT", ("0", "1")),
        ("torchrun", "MASTER_ADDR", ("node7", "node8")),
        ("torchrun", "MASTER_PORT", ("29500", "29501")),
        ("SLURM", "SLURM_JOB_ID", ("12", "13")),
        ("SLURM", "SLURM_STEP_ID", ("0", "1")),
        ("SLURM", "SLURM_RESTART_COUNT", (None, "1")),  # a requeue keeps the other two
        ("SLURM", "SLURM_RESTART_COUNT", ("1", "2")),
        ("Open MPI", "PMIX_NAMESPACE", ("prterun-7", "prterun-8")),
        ("Open MPI", "OMPI_MCA_ess_base_jobid", (None, "42")),
    ],
)
def test_each_word_of_a_launcher_tells_starts_apart(
    launcher: dict[str, str], launched_by: str, word: str, values: tuple[str | None, str]
) -> None:
    names = []
    for value in values:
        words = dict(_LAUNCHERS[launched_by])
        words.pop(word, None)
        if value is not None:
            words[word] = value
        names.append(find_job(_rank(), None, words).name)
        launcher["by"] = (
            "boot/2 78 6"  # the ranks' own machines, and who started them there, differ
        )
        assert find_job(_rank(), None, words).name == names[-1]
        launcher["by"] = ""
    assert names[0] != names[1]


@pytest.mark.parametrize("launched_by", list(_LAUNCHERS))
def test_ranks_on_one_machine_are_told_apart_by_who_started_them(
    launcher: dict[str, str], launched_by: str
) -> None:
    words = _LAUNCHERS[launched_by]
    names = set()
    for started in ("boot/1 77 5", "boot/1 78 6"):
        launcher["by"] = started
        found = find_job(_rank(local_world_size=4), None, words)
        assert found.is_local
        assert found.rank_variable == next(iter(words))
        names.add(found.name)
    assert len(names) == 2


def test_a_rendezvous_on_this_machine_has_all_ranks_here(launcher: dict[str, str]) -> None:
    launcher["by"] = "boot/1 77 5"
    for address in ("localhost", "127.0.0.1", "::1"):
        assert find_job(_rank(), None, {**_TORCHRUN, "MASTER_ADDR": address}).is_local
    assert not find_job(_rank(), None, _TORCHRUN).is_local


def test_below_two_launchers_the_nearest_one_counts(launcher: dict[str, str]) -> None:
    """Torchrun, started by srun."""
    assert launcher["by"] == ""
    both = {**_SLURM, **_TORCHRUN}
    assert find_job(_rank(), None, both) == find_job(_rank(), None, _TORCHRUN)
    assert find_job(_rank(), None, both).name != find_job(_rank(), None, _SLURM).name


def test_the_checkpointer_says_so_before_it_writes(
    launcher: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert launcher["by"] == ""
    for words in _LAUNCHERS.values():
        for name in words:
            monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError, match="Give job="):
        stoker.Checkpointer(tmp_path, rank=0, world_size=2)
    stoker.Checkpointer(tmp_path, rank=0, world_size=2, job="a").close()
