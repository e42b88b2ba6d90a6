"""Processes that run map functions: spawned, not forked, and given batches through memfds."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import socket
import subprocess
import sys
import weakref
from multiprocessing import spawn
from typing import Any

from stoker._loader.map import packets
from stoker._loader.map.job import Collate, Job, MapError, MapFunction
from stoker._loader.map.worker import ENVIRONMENT, Failure, Setup

_PROGRAM = """\
import json, sys
sys.path[:] = json.loads(sys.argv.pop(2))
from stoker._loader.map.worker import main
main()
"""
_END_SECONDS = 1.0  # a worker that has not ended by then is killed

_living: weakref.WeakSet[MapProcess] = weakref.WeakSet()


class _WorkerTraceback(Exception):  # noqa: N818 (a text, shown as the cause of an error)
    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def _preparation() -> dict[str, Any]:
    """Returns what a worker needs to find the functions of __main__."""
    data: dict[str, Any] = spawn.get_preparation_data("stoker-map")
    data.pop("authkey", None)
    data.pop("log_to_stderr", None)
    return data


def pickled_functions(function: MapFunction | None, collate: Collate | None, seed: int) -> bytes:
    """Returns the functions for a worker; TypeError if they cannot be pickled."""
    try:
        return pickle.dumps((function, collate, seed))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise TypeError(
            f'map_in="process": the function cannot be sent to another process ({error}). Define '
            'it at the top of a module, or say map_in="thread"'
        ) from error


class MapProcess:
    """One worker.

    Thread safety: run() by one thread at a time; close() from any.
    """

    def __init__(self, functions: bytes) -> None:
        if os.environ.get(ENVIRONMENT):
            raise RuntimeError(
                'map_in="process" was asked for while a map worker imports the main module: put '
                "what the script does under \"if __name__ == '__main__':\""
            )
        self._pid = os.getpid()
        self._is_ready = False
        self._connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environment = {"OMP_NUM_THREADS": "1", **os.environ}  # workers are the parallelism
        command = [sys.executable, "-c", _PROGRAM, str(theirs.fileno()), json.dumps(sys.path)]
        with theirs:
            self._process = subprocess.Popen(
                command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, env=environment
            )
        _living.add(self)
        packets.send(self._connection, Setup(_preparation(), functions))

    def run(self, job: Job) -> Any:
        """Returns the worker's result for a batch."""
        try:
            if not self._is_ready:
                self._answer()
                self._is_ready = True
            packets.send(self._connection, job.portable())
            return self._answer()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            raise RuntimeError(
                f"a map worker (process {self._process.pid}) died: {self._end()}"
            ) from None

    def _end(self) -> str:
        """Returns how the worker ended, if it has."""
        try:
            code = self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            return "it has closed its socket"
        return f"signal {-code}" if code < 0 else f"exit code {code}"

    def _answer(self) -> Any:
        answer = packets.receive(self._connection)
        if not isinstance(answer, Failure):
            return answer
        error = answer.error or RuntimeError("a map worker failed")
        raise error from _WorkerTraceback(answer.text)

    def close(self) -> None:
        """Ends the worker; kills it if it is busy for too long."""
        if os.getpid() != self._pid:
            return
        with contextlib.suppress(OSError):  # it has ended already
            self._connection.shutdown(socket.SHUT_RDWR)  # also wakes a run() that waits
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._connection.close()

    def _forget(self) -> None:
        """For a forked child: otherwise the worker would not notice its parent's death."""
        self._connection.close()


def _forget_all() -> None:
    for process in list(_living):
        process._forget()


os.register_at_fork(after_in_child=_forget_all)

__all__ = ["MapError", "MapProcess", "pickled_functions"]
