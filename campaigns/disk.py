"""Fill the disk of a small run, remove it, damage its files; check that no result is wrong.

    python -m campaigns.disk [--parts full inodes failing blocked damage] [--times 20] [--seed 0]

- `full`, `inodes`: runs on file systems of many sizes, so that space for bytes or for files ends at
  many moments. Then there is space, and the same command runs again.
- `failing`: a disk that turns read-only in the middle of a run, as ext4 does after an error. It is
  checked and mounted again, and the same command runs again.
- `blocked`: files where folders should be, and disks that were read-only from the start.
- `damage`: every kind of file, damaged in every way, in the folder of a finished run.

A trial is lost in these cases. A run that met the fault did not end with an error and one line
`sqrtdk: ...` that names a path, or printed a traceback. The run after it does not complete with the
bytes of an undisturbed one, has further files, or computes a whole shard again. A damaged shard is
not named and computed again, without others. Damage to another file is not refused with its name,
with nothing else changed.

The first four parts need the right to mount.
"""

import contextlib
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from campaigns import crash
from sqrtdk.storage import guards as storage_guards
from sqrtdk.workflow import parser as workflow_parser

Damage = Callable[[bytes], bytes]

DAMAGES: dict[str, Damage] = {
    "truncated": lambda content: content[: len(content) // 2],
    "a flipped bit": lambda content: content[:-9] + bytes([content[-9] ^ 1]) + content[-8:],
    "an edited header": lambda content: b"x" + content[1:],
    "an edited digit": lambda content: re.sub(rb"[0-8]", b"9", content, count=1),
    "a row twice": lambda content: b"\n".join(
        [*(lines := content.split(b"\n"))[:2], lines[1], *lines[2:]]
    ),
    "longer": lambda content: content + b"\n",
    "empty": lambda content: b"",
    "zeros": lambda content: bytes(len(content)),
    "no text": lambda content: bytes(range(256)),
}

BLOCKED = {
    "results is a file": "results",
    "results/shards is a file": "results/shards",
    "results/shards/related is a file": "results/shards/related",
    "results/default is a file": "results/default",
    "results/default/logs is a file": "results/default/logs",
    "results/default/config.yaml is a folder": "results/default/config.yaml/",
    "results/default/related/runs.csv is a folder": "results/default/related/runs.csv/",
    ".snakemake is a file": ".snakemake",
    ".snakemake/sqrtdk is a file": ".snakemake/sqrtdk",
    ".snakemake/metadata is a file": ".snakemake/metadata",
    "the folder is read-only": "ro:",
    "results is read-only": "ro:results",
    "results/shards is read-only": "ro:results/shards",
    "results/default is read-only": "ro:results/default",
    "results/default/figures is read-only": "ro:results/default/figures",
    ".snakemake is read-only": "ro:.snakemake",
}


class Trials:
    """Count what went wrong, and print one line per trial."""

    def __init__(self, expected: Path) -> None:
        self.contents = crash.contents(expected)
        self.files = names(expected)
        self.done = self.lost = self.met = 0

    def tell(self, what: str, wrong: Sequence[str], said: str) -> None:
        """Count a trial and print its line."""
        self.done += 1
        self.lost += bool(wrong)
        print(f"{self.done}: {what}: {'; '.join(wrong) or 'nothing lost'} | {said}", flush=True)

    def again(self, folder: Path) -> list[str]:
        """Run the command in a folder without faults, and return what is wrong."""
        before = crash.whole(folder)
        done = run(folder)
        after = crash.whole(folder)
        computed = [name for name, when in before.items() if after.get(name) != when]
        other = sorted(
            name
            for name, content in self.contents.items()
            if crash.contents(folder).get(name) != content
        )
        more = sorted(names(folder) - self.files)
        return [
            *([f"LOST: exit {done.returncode}\n{done.stdout}"] if done.returncode else []),
            *([f"LOST: computed again {computed}"] if computed else []),
            *([f"LOST: other bytes in {other}"] if other else []),
            *([f"LOST: left over {more}"] if more else []),
        ]


def run(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a small run with every kind of file in its own folder, with all output in stdout."""
    return subprocess.run(
        crash.command(folder, crash.SMALL), cwd=crash.ROOT, check=False,
        text=True, errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def names(folder: Path) -> set[str]:
    """Return every file of a run."""
    results = folder / "results"
    return {str(path.relative_to(results)) for path in results.rglob("*") if path.is_file()}


def last_line(said: str) -> str:
    """Return the last line of a run's output."""
    return (said.strip().splitlines() or [""])[-1]


def refused(done: subprocess.CompletedProcess[str], path: str) -> list[str]:
    """Return what is wrong with the end of a failed run: its last line must name a path."""
    line = last_line(done.stdout)
    return [
        *([] if done.returncode else ["LOST: exit 0"]),
        *([] if line.startswith("sqrtdk: ") and path in line else [f"LOST: no line, {path}"]),
        *([f"LOST: a traceback\n{done.stdout}"] if "Traceback" in done.stdout else []),
    ]


@contextlib.contextmanager
def mounted(folder: Path, *options: str) -> Iterator[None]:
    """Mount a file system on a folder for as long as the context lasts."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", *options, str(folder)], check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def tmpfs(folder: Path, options: str) -> contextlib.AbstractContextManager[None]:
    """Mount a file system in memory."""
    return mounted(folder, "-t", "tmpfs", "-o", options, "tmpfs")


def fill(trials: Trials, scratch: Path, option: str, sizes: Sequence[int]) -> None:
    """Run on file systems of these sizes, in KiB or in files."""
    for size in sizes:
        folder = scratch / f"{option}{size}"
        with tmpfs(folder, f"size={size}k" if option == "size" else f"size=64m,{option}={size}"):
            done = run(folder)
            wrong = refused(done, str(folder)) if done.returncode else []
            if done.returncode and "is full" not in last_line(done.stdout):
                wrong.append("LOST: not said that it is full")
            trials.met += done.returncode != 0
            kept = len(crash.whole(folder))
            more = "remount,size=64m,nr_inodes=10000"
            subprocess.run(["mount", "-o", more, str(folder)], check=True)
            wrong += trials.again(folder)
            said = last_line(done.stdout) if done.returncode else "room enough"
            trials.tell(f"{option}={size}, {kept} shards kept", wrong, said)


def fail(trials: Trials, scratch: Path, moments: Sequence[float]) -> None:
    """Run on a disk that turns read-only after this many seconds."""
    for moment in moments:
        image, folder = scratch / "image", scratch / "failing"
        with image.open("wb") as file:
            file.truncate(2**26)
        subprocess.run(["mkfs.ext4", "-q", "-e", "remount-ro", str(image)], check=True)
        with mounted(folder, "-o", "loop", str(image)):
            shutil.rmtree(folder / "lost+found")
            process = subprocess.Popen(
                crash.command(folder, crash.SMALL), cwd=crash.ROOT, text=True, errors="replace",
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
            time.sleep(moment)
            at = ["findmnt", "--noheadings", "--output", "SOURCE", str(folder)]
            source = subprocess.run(at, check=True, capture_output=True, text=True).stdout.strip()
            Path(f"/sys/fs/ext4/{Path(source).name}/trigger_fs_error").write_text("1")
            said, _ = process.communicate(timeout=600)
        done = subprocess.CompletedProcess(process.args, process.returncode, said)
        # Exit code 1 means that errors were repaired.
        if subprocess.run(["e2fsck", "-fy", str(image)], capture_output=True).returncode > 1:
            raise SystemExit("the image is beyond repair")
        wrong = refused(done, str(folder)) if done.returncode else []
        trials.met += done.returncode != 0
        with mounted(folder, "-o", "loop", str(image)):
            wrong += trials.again(folder)
        line = last_line(said) if done.returncode else "was finished"
        trials.tell(f"read-only after {moment:.1f} s", wrong, line)


def block(trials: Trials, scratch: Path) -> None:
    """Run with something in the way."""
    for number, (what, where) in enumerate(BLOCKED.items()):
        folder = scratch / f"blocked{number}"
        path = folder / where.removeprefix("ro:")
        path.parent.mkdir(parents=True, exist_ok=True)
        if where.startswith("ro:"):
            with tmpfs(path, "ro"):
                done = run(folder)
        else:
            if where.endswith("/"):
                path.mkdir()
                (path / "mine").write_text("")
            else:
                path.write_text("")
            done = run(folder)
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
        trials.met += 1
        wrong = refused(done, where.removeprefix("ro:").rstrip("/"))
        trials.tell(what, wrong + trials.again(folder), last_line(done.stdout))


def spoil(path: Path, content: bytes) -> None:
    """Replace a file's content but keep its time stamp, like a failing disk."""
    stat = path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def damage_shards(trials: Trials, finished: Path, scratch: Path) -> None:
    """Damage one shard of an experiment, and one of the exact expectations, in every way."""
    for name, damage in DAMAGES.items():
        folder = scratch / f"shards {name}"
        shutil.copytree(finished, folder)
        victims = [
            sorted((folder / "results/shards" / kind).glob("*.csv"))[0]
            for kind in ("related", "exact")
        ]
        for path in victims:
            spoil(path, damage(path.read_bytes()))
        before = crash.whole(folder)
        done = run(folder)
        after = crash.whole(folder)
        new = {path.with_suffix(".2.csv").relative_to(folder).as_posix() for path in victims}
        other = [
            n for n, content in trials.contents.items() if crash.contents(folder).get(n) != content
        ]
        wrong = [
            *([f"LOST: exit {done.returncode}\n{done.stdout}"] if done.returncode else []),
            *([f"LOST: other bytes in {other}"] if other else []),
            *([f"LOST: written {after}"] if after.keys() - before.keys() != new else []),
            *(["LOST: written again"] if {n: after.get(n) for n in before} != before else []),
            *(
                f"LOST: {path.name} is not named"
                for path in victims
                if f"{path.relative_to(folder)} is damaged" not in done.stdout
            ),
        ]
        trials.met += 1
        trials.tell(f"two shards, {name}", wrong, "made again")
        shutil.rmtree(folder)


def damage_others(trials: Trials, finished: Path, scratch: Path) -> None:
    """Damage all other files, all of their digests, and then move all of them away."""
    folder = scratch / "others"
    shutil.copytree(finished, folder)
    files = [folder / "results" / name for name in names(folder) if name.startswith("default/")]
    guards = sorted(path for path in files if path.suffix == ".sha256")
    guarded = [path.with_name(path.name[1 : -len(".sha256")]) for path in guards]
    wrong = [
        f"LOST: {path.name} has no digest"
        for path in set(files) - {*guards, *guarded}
        if path.parent.name != "logs"
    ]
    trials.tell(f"{len(guarded)} files with a digest", wrong, "")
    for what, victims in (("files", guarded), ("digests", guards)):
        kept = {path: path.read_bytes() for path in victims}
        for name, damage in DAMAGES.items():
            if what == "digests" and name in ("longer", "a row twice"):
                # Space around a digest does not count.
                continue
            for path, content in kept.items():
                spoil(path, damage(content))
            before = {one: (folder / "results" / one).read_bytes() for one in names(folder)}
            done = run(folder)
            after = {one: (folder / "results" / one).read_bytes() for one in names(folder)}
            # A file without a digit was not edited.
            spoiled = [path for path in guarded if storage_guards.is_changed(path)]
            short = [str(path.relative_to(folder)) for path in spoiled]
            silent = [x for x in short if f"sqrtdk: {x} was changed after" not in done.stdout]
            other = [x for x in before.keys() | after.keys() if before.get(x) != after.get(x)]
            wrong = [
                *refused(done, min(short)),
                *([f"LOST: {silent} not named"] if silent else []),
                *([f"LOST: changed {other}"] if set(other) - {".lock"} else []),
            ]
            trials.met += 1
            trials.tell(f"{len(victims)} {what}, {name}", wrong, last_line(done.stdout))
        for path, content in kept.items():
            spoil(path, content)
    for path in guarded:
        path.unlink()
    trials.tell("all moved away", trials.again(folder), "made again")
    shutil.rmtree(folder / "results/shards")
    trials.tell("the folder of shards deleted", trials.again(folder), "made again")


def main() -> None:
    """Run the trials; exit 1 if anything was lost."""
    parser = workflow_parser.Parser(description=__doc__.splitlines()[0])
    parts = ("full", "inodes", "failing", "blocked", "damage")
    parser.add_argument("--parts", nargs="+", choices=parts, default=parts)
    parser.add_argument("--times", type=workflow_parser.whole, default=20)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as temporary:
        scratch = Path(temporary)
        if set(options.parts) - {"damage"}:
            try:
                with tmpfs(scratch / "may", "size=1m"):
                    pass
            except (OSError, subprocess.CalledProcessError):
                print("campaigns.disk: may not mount here; --parts damage needs no mounting")
                sys.exit(2)
        finished = scratch / "finished"
        start = time.monotonic()
        subprocess.run(
            crash.command(finished, crash.SMALL), cwd=crash.ROOT, check=True, capture_output=True
        )
        length = time.monotonic() - start
        trials = Trials(finished)
        paths = list(finished.rglob("*"))
        kib = sum(-(-path.stat().st_size // 4096) * 4 for path in paths if path.is_file())
        print(f"undisturbed: {length:.1f} s, {len(paths)} files of {kib} KiB", flush=True)

        def moments(end: float) -> list[float]:
            """Return one random moment in each of equal parts of an undisturbed run."""
            return [(n + rng.random()) * end / options.times for n in range(options.times)]

        for part in options.parts:
            match part:
                case "full":
                    fill(trials, scratch, "size", [4 + round(x) for x in moments(kib)])
                case "inodes":
                    sizes = [1 + round(x) for x in moments(len(paths))]
                    fill(trials, scratch, "nr_inodes", sizes)
                case "failing":
                    fail(trials, scratch, moments(length))
                case "blocked":
                    block(trials, scratch)
                case "damage":
                    damage_shards(trials, finished, scratch)
                    damage_others(trials, finished, scratch)
    print(
        f"{trials.done} trials, {trials.met} of them met the fault: lost {trials.lost}", flush=True
    )
    sys.exit(trials.lost > 0)


if __name__ == "__main__":
    main()
