#!/usr/bin/env python3
"""Compares the symbols of libstoker.so with tests/golden/abi, so that changes show in a diff.

Also checks that the library calls nothing that is the program's to decide: it neither prints nor
ends the process, handles or blocks no signal, and changes no state that the process has once.

usage: check_abi.py LIBRARY [--write]

LIBRARY is libstoker.so. --write updates the file instead: review the diff before committing. A line
that is removed or changed breaks programs: before 1.0 this takes a new minor version, which has its
own soname.
"""

import subprocess
import sys
from difflib import unified_diff
from pathlib import Path

GOLDEN = Path(__file__).resolve().parents[1] / "tests" / "golden" / "abi" / "libstoker.txt"


FORBIDDEN = {
    *("abort", "exit", "_exit", "_Exit", "quick_exit"),
    *("printf", "fprintf", "vprintf", "vfprintf", "puts", "fputs", "putchar", "perror"),
    *("__printf_chk", "__fprintf_chk", "__vfprintf_chk", "syslog", "stdout", "stderr"),
    *("_ZSt4cout", "_ZSt4cerr", "_ZSt4clog"),
    *("signal", "sigaction", "sigprocmask", "pthread_sigmask", "sigaltstack", "alarm"),
    *("setenv", "unsetenv", "putenv", "setlocale", "chdir", "fchdir", "umask", "setrlimit"),
}


def imported_symbols(library: str) -> set[str]:
    """Returns what the library needs of others, without versions."""
    command = ["nm", "--dynamic", "--undefined-only", "--format=posix", library]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {line.split(maxsplit=1)[0].partition("@")[0] for line in listed.splitlines()}


def exported_symbols(library: str) -> list[str]:
    """Returns the demangled symbols, sorted, one for each line. Variants of one are one line."""
    command = ["nm", "--dynamic", "--defined-only", "--demangle", "--format=posix", library]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    # NAME TYPE VALUE SIZE; the name has spaces in it. Constructors, for one, have several variants.
    return sorted({line.rsplit(maxsplit=3)[0] for line in listed.splitlines()})


def main() -> int:
    """Prints differences; returns 1 if there are any."""
    arguments = [argument for argument in sys.argv[1:] if argument != "--write"]
    if len(arguments) != 1:
        print(__doc__)
        return 2
    symbols = exported_symbols(arguments[0])
    if "--write" in sys.argv:
        GOLDEN.parent.mkdir(parents=True, exist_ok=True)
        GOLDEN.write_text("".join(f"{symbol}\n" for symbol in symbols))
        return 0
    golden = GOLDEN.read_text().splitlines() if GOLDEN.exists() else []
    changes = [*unified_diff(golden, symbols, GOLDEN.name, "exported", n=0, lineterm="")]
    print(*changes, sep="\n")
    if changes:
        print("run: make abi")
    forbidden = sorted(imported_symbols(arguments[0]) & FORBIDDEN)
    for symbol in forbidden:
        print(f"{arguments[0]} calls {symbol}, which is for the program to decide")
    return 1 if changes or forbidden else 0


if __name__ == "__main__":
    sys.exit(main())
