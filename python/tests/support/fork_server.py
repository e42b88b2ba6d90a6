"""Starts Python programs by fork, from a process that has imported what they import.

Importing stoker costs a process 0.15 s of CPU time, and torch more than a second.
``ForkedPython`` takes ``[sys.executable, "-c", program, ...]`` and is otherwise a
``subprocess.Popen``. The program finds a process of its own: a __main__ with nothing in it, its
arguments, environment, directory and streams, the main thread alone, and the end that an
interpreter has. Its parent is the server. Tests of start-up itself, of what is imported, or of who
is whose parent start an interpreter instead.

Run as a program this file is the server. Each process that runs tests has one for each set of
modules; it ends when its socket does.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import json
import os
import select
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

_REQUEST_BYTES_MAX = 1 << 20
# The last is imported by the first step of any optimizer, and takes as long as torch itself.
_TORCH = ("torch.distributed", "torch.distributed.fsdp", "torch._dynamo")
_TORCHRUN = """
import runpy
runpy.run_module("torch.distributed.run", run_name="__main__", alter_sys=True)
"""


def _serve(control: socket.socket) -> dict[str, Any]:
    """Forks for each request; returns in the child, what was asked."""
    while True:
        message, streams, _, _ = socket.recv_fds(control, _REQUEST_BYTES_MAX, 3)
        if not message:
            os._exit(0)
        asked: dict[str, Any] = json.loads(message)
        if "ended" in asked:
            # Not before: until then its number is no other process's.
            control.send(json.dumps(os.waitpid(asked["ended"], 0)[1]).encode())
            continue
        child = os.fork()
        if child == 0:
            control.close()
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
                os.close(stream)
            return asked
        for stream in streams:
            os.close(stream)
        control.send(json.dumps(child).encode())


def _become(asked: dict[str, Any]) -> None:
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    sys.argv = ["-c", *asked["arguments"]]
    sys.path[0] = ""
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()  # `random` does so by itself
    main = sys.modules["__main__"].__dict__
    builtins = main["__builtins__"]
    main.clear()
    main.update(__name__="__main__", __doc__=None, __builtins__=builtins)
    exec(compile(asked["program"], "<string>", "exec"), main)


class _Server:
    """The process that forks, seen from the tests."""

    def __init__(self, modules: tuple[str, ...]) -> None:
        self.lock = threading.Lock()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for one in (self._control, theirs):
            one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _REQUEST_BYTES_MAX)
        with theirs:
            subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno()), *modules],
                pass_fds=[theirs.fileno()],
                env=os.environ | {"OMP_NUM_THREADS": "1"},
            )

    def ask(self, request: dict[str, Any], streams: tuple[int, ...] = ()) -> int:
        """Sends a request; returns the answer."""
        with self.lock:
            socket.send_fds(self._control, [json.dumps(request).encode()], streams)
            answer = self._control.recv(64)
        assert answer, "the server that forks has ended"
        number: int = json.loads(answer)
        return number


@functools.cache
def _server(modules: tuple[str, ...]) -> _Server:
    return _Server(modules)


class ForkedPython(subprocess.Popen[Any]):
    """A process that runs ``[sys.executable, "-c", program, ...]``.

    With ``torch`` it finds torch imported as well as stoker. Of Popen's options those for the
    streams, ``env``, ``cwd`` and ``text`` are known.
    """

    def __init__(self, command: list[Any], *, torch: bool = False, **options: Any) -> None:
        interpreter, flag, program, *arguments = map(str, command)
        assert (interpreter, flag) == (sys.executable, "-c"), command
        unknown = options.keys() - {"stdin", "stdout", "stderr", "env", "cwd", "text"}
        assert not unknown, unknown
        self._server = _server(("stoker", *_TORCH) if torch else ("stoker",))
        self._request = {"program": program, "arguments": arguments}
        super().__init__([interpreter, flag, program, *arguments], **options)

    # These replace methods of Popen that no manual describes. Python 3.10 to 3.13 have them.

    def _execute_child(self, *given: Any) -> None:
        folder, environment, ends = given[5], given[6], given[10:16]
        theirs = (ends[0], ends[3], ends[5])
        streams = tuple(i if end == -1 else end for i, end in enumerate(theirs))
        request = self._request | {
            "folder": os.fspath(folder or Path.cwd()),
            "environment": dict(os.environ if environment is None else environment),
        }
        self.pid = self._server.ask(request, streams)
        self._pidfd = os.pidfd_open(self.pid)
        vars(self)["_child_created"] = True
        vars(subprocess.Popen)["_close_pipe_fds"](self, *ends)

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        """As os.waitpid(), whose child it is not."""
        ended, _, _ = select.select([self._pidfd], [], [], 0 if wait_flags == os.WNOHANG else None)
        if not ended:
            return 0, 0
        os.close(self._pidfd)
        return self.pid, self._server.ask({"ended": self.pid})

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        # Popen's destructor calls this, at any moment: also while the server is asked something.
        lock, end = vars(self)["_waitpid_lock"], vars(subprocess.Popen)["_handle_exitstatus"]
        is_free = self.returncode is None and not self._server.lock.locked()
        if is_free and lock.acquire(blocking=False):
            with contextlib.ExitStack() as stack:
                stack.callback(lock.release)
                pid, status = self._try_wait(os.WNOHANG)
                if pid != 0:
                    end(self, status)
        return self.returncode


def torchrun(
    *words: object, env: dict[str, str] | None = None, timeout: float = 300, **options: Any
) -> tuple[int, str, str]:
    """Runs torchrun, whose ranks start as always; returns its status, and what it has printed."""
    with ForkedPython(
        [sys.executable, "-c", _TORCHRUN, *words],
        torch=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=(os.environ if env is None else env) | {"OMP_NUM_THREADS": "1"},
        **options,
    ) as launcher:
        try:
            out, errors = launcher.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            launcher.kill()
            raise
    return launcher.returncode, out, errors


if __name__ == "__main__":
    for _name in sys.argv[2:]:
        importlib.import_module(_name)
    # What is collected at the end of a program is its own: not a second's work on torch's objects.
    gc.collect()
    gc.freeze()
    _become(_serve(socket.socket(fileno=int(sys.argv[1]))))
