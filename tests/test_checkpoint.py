"""Pull the plug anywhere, fill the disk, flip a byte: a checkpoint that was safe stays safe."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch import Tensor

from headway.errors import DiskError, UsageError
from headway.storage import files, lock, tensors
from headway.storage.manifest import Checkpoint, DamagedError, read_checkpoint
from headway.storage.sealed_json import sealed
from headway.training.checkpoint import Checkpoints, hash_of
from headway.training.saver import Saver

Fault = Callable[[str], None]


def state(value: float) -> dict[str, dict[str, Tensor]]:
    return {
        "model": {"weight": torch.full((3, 5), value), "half": torch.full((4,), value, dtype=torch.bfloat16)},
        "optimiser": {"step": torch.tensor(value), "moment": torch.full((3, 5), -value)},
        "random": {"torch": torch.arange(64, dtype=torch.uint8)},
    }


def save(checkpoints: Checkpoints, step: int, score: float | None = None) -> Path:
    return checkpoints.save(step, state(float(step)), {"step": step, "cursor": [1, step]}, score)


def assert_whole(checkpoint: Checkpoint | None, *steps: int) -> None:
    """It is one of these steps, and all of it is of that step."""
    assert checkpoint is not None and checkpoint.step in steps
    assert checkpoint.facts == {"step": checkpoint.step, "cursor": [1, checkpoint.step]}
    for name, group in state(float(checkpoint.step)).items():
        found = checkpoint.tensors(name)
        assert found.keys() == group.keys()
        assert all(torch.equal(found[key], group[key]) for key in group)


def unfinished(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if ".tmp-" in path.name]


@pytest.fixture
def fault(monkeypatch: pytest.MonkeyPatch) -> Iterator[Fault]:
    def arm(text: str) -> None:
        monkeypatch.setenv("HEADWAY_FAULT", text)
        files.plug.cache_clear()

    yield arm
    monkeypatch.delenv("HEADWAY_FAULT", raising=False)
    files.plug.cache_clear()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "run" / "state"


# ---------------------------------------------------------------- tensors


def test_every_kind_of_tensor_comes_back_bit_for_bit(folder: Path) -> None:
    shared = torch.arange(12.0)
    given = {
        "scalar": torch.tensor(1.5, dtype=torch.float64),
        "empty": torch.zeros(0, 3),
        "across": torch.arange(6.0).reshape(2, 3).T,
        "shared": shared,
        "part of shared": shared[3:7],
        "learned": torch.nn.Parameter(torch.randn(2, 2)),
        "truth": torch.tensor([True, False]),
        "wave": torch.tensor([1 + 2j]).conj(),
        "nothing finite": torch.tensor([float("nan"), float("inf")]),
        **{f"of {kind}": torch.ones(3).to(kind) for kind in tensors.NAMES},
    }
    with Checkpoints(folder) as checkpoints:
        checkpoints.save(1, {"all": given}, {})
        found = checkpoints.newest()
    assert found is not None
    mine, theirs = found.tensors("all"), safetensors.torch.load_file(found.path / "all.safetensors")
    assert mine.keys() == theirs.keys() == given.keys()
    for name, tensor in given.items():
        same = tensor.detach().resolve_conj().contiguous().flatten().view(torch.uint8)
        assert mine[name].dtype == tensor.dtype and mine[name].shape == tensor.shape
        assert torch.equal(mine[name].flatten().view(torch.uint8), same)
        assert torch.equal(theirs[name].flatten().view(torch.uint8), same)


def test_the_file_is_byte_for_byte_what_the_safetensors_library_writes() -> None:
    given = {f"layer.{i}.weight": torch.randn(i + 1, 3) for i in range(12)} | {"id": torch.arange(3)}
    assert b"".join(tensors.stream(given)) == safetensors.torch.save(given)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_tensors_on_a_gpu_are_saved(folder: Path) -> None:
    with Checkpoints(folder) as checkpoints:
        checkpoints.save(1, {"model": {"weight": torch.arange(6.0, device="cuda").reshape(2, 3).T}}, {})
        found = checkpoints.newest()
    assert found and torch.equal(found.tensors("model")["weight"], torch.arange(6.0).reshape(2, 3).T)


def test_a_group_that_was_not_saved_is_named(folder: Path) -> None:
    with Checkpoints(folder) as checkpoints:
        path = save(checkpoints, 1)
    with pytest.raises(UsageError, match="has no averages; it has model, optimiser, random"):
        read_checkpoint(path).tensors("averages")


def test_the_manifest_tells_sizes_hashes_versions_and_configuration(folder: Path) -> None:
    with Checkpoints(folder, configuration="seed = 1\n") as checkpoints:
        path = save(checkpoints, 7, score=21.5)
    manifest = json.loads((path / "manifest.json").read_text())
    assert manifest["configuration"] == hash_of("seed = 1\n") == read_checkpoint(path).configuration
    assert manifest["torch"] == torch.__version__ and manifest["headway"]
    for name, entry in manifest["files"].items():
        out = subprocess.run(["sha256sum", path / name], capture_output=True, check=True, text=True)
        assert out.stdout.split()[0] == entry["sha256"]
        assert (path / name).stat().st_size == entry["size"]
    assert manifest["files"].keys() | {"manifest.json"} == {file.name for file in path.iterdir()}
    assert (folder / "latest").read_text() == "step-00000007\n"


# ---------------------------------------------------------------- the plug

KILLER = """
import os, shutil, sys
from itertools import count
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from test_checkpoint import save
from headway.storage import files
from headway.training.checkpoint import Checkpoints

files.CHUNK = 100  # so that files are torn in the middle
root = Path(sys.argv[2])
with Checkpoints(root / "old", keep_last=1) as checkpoints:
    save(checkpoints, 100)
for n in count(1):
    folder = root / str(n)
    shutil.copytree(root / "old", folder)
    child = os.fork()
    if child == 0:
        os.environ["HEADWAY_FAULT"] = f"any:{n}:kill"
        files.plug.cache_clear()
        save(Checkpoints(folder, keep_last=1), 200)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(status)
    if status == 0:
        break
"""


def test_killed_at_every_point_of_a_save_the_old_or_the_new_is_whole(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLER, str(Path(__file__).parent), str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    ends = [int(line) for line in done.stdout.split()]
    assert len(ends) > 50 and set(ends[:-1]) == {-signal.SIGKILL} and ends[-1] == 0
    found_steps = []
    for n in range(1, len(ends) + 1):
        folder = tmp_path / str(n)
        checkpoints = Checkpoints(folder, keep_last=1)
        found = checkpoints.newest()
        assert_whole(found, 100, 200)
        assert found and checkpoints.notes == []  # nothing that is listed is damaged
        found_steps.append(found.step)
        with checkpoints:
            assert unfinished(folder) == []
            if n % 8 == 0:  # and training goes on from there
                save(checkpoints, 300)
                assert sorted(path.name for path in folder.glob("step-*")) == ["step-00000300"]
    assert found_steps == sorted(found_steps) and {100, 200} == set(found_steps)


def test_the_environment_alone_pulls_the_plug(folder: Path) -> None:
    script = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from pathlib import Path; from test_checkpoint import save, Checkpoints\n"
        f"checkpoints = Checkpoints(Path({str(folder)!r}))\n"
        "save(checkpoints, 1); print('first', flush=True); save(checkpoints, 2); print('second')"
    )
    environment = {**os.environ, "HEADWAY_FAULT": "before-rename:3:kill"}  # each save renames twice
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, "first\n")
    assert_whole(Checkpoints(folder).newest(), 1)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc to name an open file")
def test_a_name_is_given_only_to_what_is_durable(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: set[Path] = set()
    renamed: list[Path] = []
    fsync, replace = os.fsync, os.replace

    def watch_fsync(handle: int) -> None:
        synced.add(Path(os.readlink(f"/proc/self/fd/{handle}")))
        fsync(handle)

    def watch_replace(old: Path, new: Path) -> None:
        inside = {old, *old.iterdir()} if old.is_dir() else {old}
        assert inside <= synced
        synced.clear()  # what was synced before says nothing about the new name
        renamed.append(new)
        replace(old, new)

    with Checkpoints(folder) as checkpoints:
        monkeypatch.setattr("os.fsync", watch_fsync)
        monkeypatch.setattr("os.replace", watch_replace)
        final = save(checkpoints, 1)
    assert renamed == [final, folder / "latest"] and folder in synced


def test_an_order_to_fail_that_makes_no_sense_is_refused(fault: Fault) -> None:
    for text in ("before-lunch:1:kill", "any:x:kill", "any:1:explode", "any"):
        fault(text)
        with pytest.raises(UsageError, match="point:n:act"):
            files.at("before-write")


# ---------------------------------------------------------------- the disk


def test_a_disk_that_fails_at_any_point_leaves_the_old_or_the_new(folder: Path, fault: Fault) -> None:
    acts = ["enospc", "eio", "edquot", "erofs", "eacces"]
    checkpoints = Checkpoints(folder, keep_last=1)
    save(checkpoints, 1)
    clean, turn = False, 0
    for turn in range(1, 200):
        before = checkpoints.newest()
        assert before
        fault(f"any:{turn}:{acts[turn % len(acts)]}")
        try:
            save(checkpoints, before.step + 1)
            clean = not checkpoints.notes
        except DiskError as error:
            full = acts[turn % len(acts)] in ("enospc", "edquot")
            assert str(folder / "step-") in str(error) and ("bytes are needed" in str(error)) == full
            assert error.exit_code == 3
            assert unfinished(folder) == []
        assert_whole(checkpoints.newest(), before.step, before.step + 1)
        checkpoints.notes.clear()
        if clean:
            break
    assert clean and turn > 30
    assert unfinished(folder) == []
    checkpoints.release()


def test_a_file_that_may_not_grow_is_disk_trouble(folder: Path) -> None:
    with Checkpoints(folder) as checkpoints:
        save(checkpoints, 1)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
        try:
            with pytest.raises(DiskError, match="File too large"):
                save(checkpoints, 2)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert unfinished(folder) == []
        assert_whole(checkpoints.newest(), 1)


def test_too_little_space_is_seen_before_writing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Checkpoints(folder) as checkpoints:
        save(checkpoints, 1)
        monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 100_000})())
        with pytest.raises(DiskError, match=r"131,\d\d\d bytes are needed .* 100,000 are free"):
            save(checkpoints, 2)
        assert_whole(checkpoints.newest(), 1)


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    script = (
        "import os, torch\nfrom pathlib import Path\n"
        "from headway.errors import DiskError\nfrom headway.training.checkpoint import Checkpoints\n"
        "if os.getuid() == 0: os.setgid(65534); os.setuid(65534)\n"
        "try: Checkpoints(Path('state')).save(1, {'model': {'w': torch.ones(3)}}, {})\n"
        "except DiskError as error: print(error)"
    )
    place = tmp_path / "place"
    place.mkdir()
    place.chmod(0o555)
    done = subprocess.run([sys.executable, "-c", script], cwd=place, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("cannot write state: Permission denied") and done.stdout.count("\n") == 1


def test_the_saver_tries_again_goes_on_and_gives_up(folder: Path, fault: Fault) -> None:
    slept: list[float] = []
    checkpoints = Checkpoints(folder)
    saver = Saver(checkpoints, sleep=slept.append)
    assert saver.save(1, state(1.0), {"step": 1, "cursor": [1, 1]})
    fault("before-write:1:enospc")
    assert saver.save(2, state(2.0), {"step": 2, "cursor": [1, 2]})  # the second try
    assert slept == [1.0] and "trying again" in checkpoints.notes[0]
    fault("before-sync:0:eio")
    slept.clear()
    assert saver.save(3, state(3.0), {}) is None
    assert saver.save(4, state(4.0), {}) is None
    assert slept == [1.0, 5.0] * 2 and "training goes on" in checkpoints.notes[-1]
    with pytest.raises(DiskError):
        saver.save(5, state(5.0), {})
    assert unfinished(folder) == []
    assert_whole(checkpoints.newest(), 2)
    checkpoints.release()


def test_a_save_that_works_starts_the_count_again(folder: Path, fault: Fault) -> None:
    checkpoints = Checkpoints(folder)
    saver = Saver(checkpoints, pauses=(), sleep=lambda _: None)
    for step in range(6):
        fault("any:1:eio" if step % 3 < 2 else "before-write:99999:eio")
        assert (saver.save(step, state(1.0), {}) is None) == (step % 3 < 2)
    fault("any:1:eio")
    with pytest.raises(DiskError):  # the last save of a run is not given up quietly
        saver.insist(9, state(1.0), {})
    checkpoints.release()


# ---------------------------------------------------------------- bit rot


def test_every_flipped_byte_and_every_cut_is_seen_and_the_older_one_used(folder: Path) -> None:
    with Checkpoints(folder) as checkpoints:
        save(checkpoints, 1)
        path = save(checkpoints, 2)
    chance = random.Random(1)
    for file in sorted(path.iterdir()):
        sound = file.read_bytes()
        flips = [0, len(sound) - 1, *(chance.randrange(len(sound)) for _ in range(36))]
        cuts = [0, 1, len(sound) // 2, len(sound) - 1]
        variants = [sound[:at] + bytes([sound[at] ^ 1 << at % 8]) + sound[at + 1 :] for at in flips]
        variants += [sound[:at] for at in cuts] + [sound + b"\n"]
        for variant in variants:
            file.write_bytes(variant)
            reader = Checkpoints(folder)
            assert_whole(reader.newest(), 1)
            assert len(reader.notes) == 1 and str(path) in reader.notes[0] and "\n" not in reader.notes[0]
        file.unlink()
        with pytest.raises(DamagedError, match=f"{file.name} is missing"):
            read_checkpoint(path)
        file.write_bytes(sound)
    assert_whole(Checkpoints(folder).newest(), 2)


def test_a_damaged_one_is_written_anew_beside_and_then_removed(folder: Path) -> None:
    with Checkpoints(folder, keep_last=2) as checkpoints:
        save(checkpoints, 1)
        path = save(checkpoints, 2)
        (path / "model.safetensors").write_bytes(b"rot")
        assert_whole(checkpoints.newest(), 1)
        assert save(checkpoints, 2).name == "step-00000002.2"
        assert_whole(checkpoints.newest(), 2)
        assert not path.exists() and (folder / "step-00000001").exists()


def test_a_manifest_that_lists_files_elsewhere_is_refused(folder: Path) -> None:
    with Checkpoints(folder) as checkpoints:
        path = save(checkpoints, 1)
    table = json.loads((path / "manifest.json").read_text())
    table.pop("seal")
    for name in ("../outside.json", "/etc/passwd", "a/b.json", "x.py"):
        changed = {**table, "files": {**table["files"], name: {"size": 1, "sha256": ""}}}
        (path / "manifest.json").write_bytes(sealed(changed))
        with pytest.raises(DamagedError, match="is not a file of a checkpoint"):
            read_checkpoint(path)


def test_a_checkpoint_of_a_newer_headway_is_not_called_damaged(folder: Path) -> None:
    with Checkpoints(folder) as checkpoints:
        path = save(checkpoints, 1)
    table = json.loads((path / "manifest.json").read_text()) | {"format": 2, "headway": "9.9"}
    table.pop("seal")
    (path / "manifest.json").write_bytes(sealed(table))
    with pytest.raises(UsageError, match="format 2 of headway 9.9") as caught:
        Checkpoints(folder).newest()
    assert not isinstance(caught.value, DamagedError)


# ---------------------------------------------------------------- what is kept


def test_the_last_and_the_best_are_kept(folder: Path) -> None:
    scores = {1: 10.0, 2: 30.0, 3: 20.0, 4: None, 5: float("nan"), 6: 25.0, 7: 30.0}
    with Checkpoints(folder, keep_last=2, keep_best=2) as checkpoints:
        for step, score in scores.items():
            save(checkpoints, step, score)
        assert sorted(p.name for p in folder.glob("step-*")) == [f"step-{n:08d}" for n in (2, 6, 7)]
        assert_whole(checkpoints.best(), 2)  # of equals the earlier
        assert_whole(checkpoints.newest(), 7)
        best = checkpoints.best()
        assert best and best.score == 30.0
        (best.path / "facts.json").write_bytes(b"{}")
        assert_whole(checkpoints.best(), 7)


def test_an_empty_or_missing_folder_holds_nothing(folder: Path) -> None:
    assert Checkpoints(folder).newest() is None and Checkpoints(folder).best() is None
    folder.mkdir(parents=True)
    (folder / "notes.txt").write_text("mine")
    Checkpoints(folder).prune()
    assert Checkpoints(folder).newest() is None and (folder / "notes.txt").exists()


def test_what_came_after_can_be_discarded(folder: Path) -> None:
    with Checkpoints(folder, keep_last=9) as checkpoints:
        for step in (1, 2, 3):
            save(checkpoints, step)
        checkpoints.discard_after(1)
        assert_whole(checkpoints.newest(), 1)
        assert (folder / "latest").read_text() == "step-00000001\n"


def test_the_one_just_saved_is_never_pruned(folder: Path) -> None:
    with Checkpoints(folder, keep_last=1, keep_best=0) as checkpoints:
        save(checkpoints, 9)
        assert save(checkpoints, 5).exists()


def test_only_the_leavings_of_the_dead_are_swept(folder: Path) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    folder.mkdir(parents=True)
    for pid in (dead.pid, os.getpid(), os.getppid()):
        (folder / f"step-00000009.tmp-{pid}").mkdir()
        (folder / f"step-00000009.tmp-{pid}" / "model.safetensors").write_text("half")
        (folder / f"latest.tmp-{pid}").write_text("half")
    with Checkpoints(folder) as checkpoints:
        names = {f"step-00000009.tmp-{os.getppid()}", f"latest.tmp-{os.getppid()}"}
        assert {path.name for path in folder.glob("*.tmp-*")} == names
        assert checkpoints.newest() is None


# ---------------------------------------------------------------- one writer

HOLDER = """
import os, sys, time
from pathlib import Path
from headway.storage.lock import Lock
held = Lock(Path(sys.argv[1]))
held.take()
if os.fork() == 0:
    held.release()  # a child has no say
    os._exit(0)
os.wait()
print("held", flush=True)
time.sleep(60)
"""


def test_a_second_writer_is_refused_until_the_first_is_dead(folder: Path) -> None:
    folder.mkdir(parents=True)
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder / "lock")], stdout=subprocess.PIPE, text=True
    ) as first:
        try:
            assert first.stdout and first.stdout.readline() == "held\n"
            with pytest.raises(UsageError, match=f"is being written by process {first.pid}: wait"):
                save(Checkpoints(folder), 1)
            assert Checkpoints(folder).newest() is None  # reading needs no lock
        finally:
            first.kill()
    assert (folder / "lock").read_text() == f"{first.pid}\n"  # stale now
    with Checkpoints(folder) as checkpoints:
        assert (folder / "lock").read_text() == f"{os.getpid()}\n"
        save(checkpoints, 1)
    assert not (folder / "lock").exists()


def test_without_kernel_locks_the_process_number_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    dead = subprocess.Popen(["true"])
    dead.wait()
    monkeypatch.setattr("fcntl.flock", unsupported)
    (tmp_path / "lock").write_text(f"{os.getppid()}\n")
    with pytest.raises(UsageError, match=f"process {os.getppid()}"):
        lock.Lock(tmp_path / "lock").take()
    for stale in (f"{dead.pid}\n", f"{os.getpid()}\n", "", "garbage"):
        (tmp_path / "lock").write_text(stale)
        with lock.Lock(tmp_path / "lock"):
            assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"


def test_a_lock_let_go_in_the_moment_of_taking_is_taken_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, is_taken, seen = tmp_path / "lock", lock._is_taken, []

    def let_go_first(file: int, holder: int) -> bool:
        if not seen:
            path.unlink()  # as its holder does when it ends: what we opened has no name any more
        seen.append(file)
        return is_taken(file, holder)

    monkeypatch.setattr(lock, "_is_taken", let_go_first)
    with lock.Lock(path):
        assert path.read_text() == f"{os.getpid()}\n" and len(seen) == 2
        with pytest.raises(UsageError):
            lock.Lock(path).take()


def test_two_writers_of_one_process_are_told_apart(folder: Path) -> None:
    with Checkpoints(folder) as first, pytest.raises(UsageError, match=f"process {os.getpid()}"):
        save(first, 1)
        save(Checkpoints(folder), 2)


def test_a_text_is_exchanged_whole(tmp_path: Path, fault: Fault) -> None:
    path = tmp_path / "latest"
    files.replace_text(path, "old")
    for turn in range(1, 7):
        fault(f"any:{turn}:enospc")
        with pytest.raises(DiskError, match="3 bytes are needed"):
            files.replace_text(path, "new")
        assert path.read_text() in ("old", "new") and list(tmp_path.iterdir()) == [path]
