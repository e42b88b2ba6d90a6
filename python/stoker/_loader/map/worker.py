"""A process that maps batches for a Loader. Started by processes.py, ends with its socket."""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import socket
import sys
import threading
import traceback
from multiprocessing import spawn
from typing import Any, NamedTuple

from stoker._loader.map import packets
from stoker._loader.map.job import JobRunner, MapError

ENVIRONMENT = "STOKER_MAP_WORKER"


class Setup(NamedTuple):
    """The first message to a worker."""

    preparation: dict[str, Any]  # how to set up __main__: see multiprocessing.spawn
    functions: bytes  # map, collate and seed, pickled; loaded once __main__ is set up


class Failure(NamedTuple):
    """A worker's answer instead of a batch."""

    error: MapError | None
    text: str  # a traceback


def _failure(error: BaseException) -> Failure:
    text = "".join(traceback.format_exception(error))
    return Failure(error if isinstance(error, MapError) else None, text)


def _set_up(connection: socket.socket) -> JobRunner:
    setup: Setup = packets.receive(connection)
    spawn.prepare(setup.preparation)  # type: ignore[attr-defined, unused-ignore]
    return JobRunner(*pickle.loads(setup.functions))


class _Watch:
    """Ends this process if its parent exits during a job, however long the job takes.

    Between jobs it is not needed: waiting for the next one returns.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._lock = threading.Lock()  # guards all below
        self._is_busy = False
        self._is_alone = False
        threading.Thread(target=self._wait, name="stoker-watch", daemon=True).start()

    def _wait(self) -> None:
        poll = select.poll()
        poll.register(self._connection, select.POLLRDHUP)
        poll.poll()
        with self._lock:
            self._is_alone = True
            if self._is_busy:
                os._exit(1)

    def __enter__(self) -> None:
        with self._lock:
            self._is_busy = True
            if self._is_alone:
                os._exit(1)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._is_busy = False


def serve(connection: socket.socket) -> None:
    """Answers jobs until the parent has ended."""
    watch = _Watch(connection)
    try:
        runner = _set_up(connection)
    except Exception as error:
        packets.send(connection, _failure(error))
        return
    packets.send(connection, None)
    while True:
        job = packets.receive(connection)
        try:
            with watch:
                answer = runner.run(job)
        except Exception as error:
            answer = _failure(error)
        del job
        try:
            packets.send(connection, answer)
        except (EOFError, OSError):
            raise
        except Exception as error:  # pickle raises exceptions of many types
            packets.send(connection, _failure(runner.unsendable(answer, error)))
        del answer


def main() -> None:
    """The program of a worker; its argument is the descriptor of its socket."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends us
    os.environ[ENVIRONMENT] = "1"
    connection = socket.socket(fileno=int(sys.argv[1]))
    with contextlib.suppress(EOFError, OSError):  # the parent closed the socket, or died
        serve(connection)
