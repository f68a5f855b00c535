"""Compile the kernel for this machine, once; keep it in the user's cache. Whatever fails is a reason, not an error."""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from headway.engines.base import Unavailable, user_cache
from headway.errors import HeadwayError
from headway.storage import temporary
from headway.storage.lock import Lock
from headway.subprocesses import FOLDER, python, surroundings

KERNEL = Path(__file__).parent / "kernel"
COMPILERS = ("c++", "g++", "clang++")
FLAGS = ("-std=c++17", "-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-fPIC", "-shared", "-w")
NEEDED = ("avx2", "fma")
PATIENCE = 300.0  # seconds for one compilation
CPU_INFO = Path("/proc/cpuinfo")

# Run in a process of its own: a processor that lacks what the compiler believed in would end ours.
TRIAL = """
import ctypes, sys
try:
    check = ctypes.CDLL(sys.argv[1]).headway_check
except OSError:
    sys.exit(3)
sys.exit(not (check(0, 0) < 10 and check(1, 0) < 20_000 and check(1, 1) == 0))  # in millionths
"""
CANNOT_LOAD = 3


def library() -> ctypes.CDLL:
    """The compiled kernel. Looked for, made and tried once in a process; raises Unavailable with the reason."""
    found = outcome()
    if isinstance(found, str):
        raise Unavailable(found)
    return found


@cache
def outcome() -> ctypes.CDLL | str:
    try:
        compiler = find_compiler()
        name = f"native-{fingerprint(compiler)}.so"
        for folder in folders():
            try:
                return in_folder(folder, name, compiler)
            except OSError:  # not writable, full, or nothing may be executed there
                continue
        return "there is no folder where a compiled kernel can be kept"
    except Unavailable as reason:
        return str(reason)


def find_compiler() -> str:
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise Unavailable(f"the kernel needs Linux on x86-64, this is {sys.platform} on {platform.machine()}")
    missing = [flag for flag in NEEDED if flag not in cpu_flags()]
    if missing:
        raise Unavailable(f"the processor has no {' and no '.join(missing)}")
    for name in (os.environ.get("CXX", ""), *COMPILERS):
        found = shutil.which(name, path=search_path()) if name else None
        if found:
            return os.path.abspath(found)  # CXX may be relative, and compilers run in another folder
    raise Unavailable(f"no C++ compiler was found (looked for {', '.join(COMPILERS)})")


def search_path() -> str:
    """PATH without entries that depend on the current folder: a model's folder may hold a file named c++."""
    return os.pathsep.join(place for place in os.get_exec_path() if os.path.isabs(place))


def cpu_flags() -> list[str]:
    try:
        lines = CPU_INFO.read_text().splitlines()
    except OSError:
        return []
    return next((line.partition(":")[2].split() for line in lines if line.startswith("flags")), [])


def fingerprint(compiler: str) -> str:
    """Changes with the source, the compiler and the processor, so a home that machines share holds a build for each."""
    try:
        command = [compiler, "--version"]
        version = subprocess.run(command, capture_output=True, timeout=30, check=True, cwd=FOLDER).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise Unavailable(f"{compiler} does not run: {error}") from None
    parts = [compiler.encode(), version, " ".join(FLAGS).encode(), " ".join(sorted(cpu_flags())).encode()]
    parts += [path.read_bytes() for path in sorted([*KERNEL.glob("*.h"), *KERNEL.glob("*.cpp")])]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:20]


def folders() -> Iterator[Path]:
    """The cache, if it is ours alone; else a folder for this process."""
    try:
        folder = user_cache().absolute() / "kernels"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        stat = folder.stat()
        if stat.st_uid == os.getuid() and not stat.st_mode & 0o022:  # nobody else may put code there
            yield folder
    except (OSError, RuntimeError):  # no home, or not writable
        pass
    folder = temporary.Folder("kernel")
    try:
        yield folder.path
    finally:
        folder.remove()  # a loaded library outlives its file


def in_folder(folder: Path, name: str, compiler: str) -> ctypes.CDLL:
    path = folder / name
    if not path.exists():
        try:
            with Lock(folder / f"{name}.lock", PATIENCE):
                if not path.exists():  # another process may have been faster
                    compile_kernel(compiler, path)
        except HeadwayError as error:
            raise OSError(str(error)) from None  # this folder cannot be locked: another may do
    try:
        return ctypes.CDLL(str(path))
    except OSError:
        path.unlink(missing_ok=True)  # damaged: the next process makes it again
        raise


def compile_kernel(compiler: str, path: Path) -> None:
    """Write the library beside its place and rename it, so that nobody ever sees half of it.

    Files that stand there already were left by killed processes. Nothing is taken from the current folder.
    """
    for left in path.parent.glob(f"{path.name}.[0-9]*"):
        left.unlink(missing_ok=True)
    new = path.with_name(f"{path.name}.{os.getpid()}")
    command = [compiler, *FLAGS, "-o", str(new), str(KERNEL / "native.cpp")]
    try:
        made = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False, cwd=FOLDER)
        if made.returncode:
            raise Unavailable(f"{compiler} could not compile the kernel: {first_line(made.stderr)}")
        trial = python("-c", TRIAL, str(new))
        tried = subprocess.run(trial, capture_output=True, timeout=60, check=False, **surroundings())
        if tried.returncode == CANNOT_LOAD:
            raise OSError(f"{path.parent}: nothing may be executed here")
        if tried.returncode:
            raise Unavailable("the compiled kernel does not compute what it should on this machine")
        new.replace(path)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{compiler} took more than {PATIENCE:g} seconds for the kernel") from None
    finally:
        new.unlink(missing_ok=True)


def first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if "error" in line] or text.split("\n")
    return lines[0][:200] or "no message"
