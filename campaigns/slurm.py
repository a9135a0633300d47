"""Run on a real SLURM: bytes, a cancelled job, stopping, and what a killed run leaves.

    python -m campaigns.slurm [--only NAME...] [--grid smoke]

Starts munged, slurmctld and slurmd on this machine, in a folder of its own, and ends each by its
process number. Needs root, and the packages slurmctld, slurmd, slurm-client, munge and
slurm-wlm-basic-plugins of Debian; without them it says so and exits with 0. Replaces
/etc/slurm/slurm.conf by a link while it runs, because the steps of a job read no other file.
"""

import argparse
import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[1]
CONF = Path("/etc/slurm/slurm.conf")
NEEDED = ("slurmctld", "slurmd", "sbatch", "squeue", "scancel", "sinfo", "munged")
"""Programs without which there is nothing to test."""

SLURM_CONF = """
ClusterName=local
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SlurmctldPort=16817
SlurmdPort=16818
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
AccountingStorageType=accounting_storage/none
MpiDefault=none
ReturnToService=2
SchedulerType=sched/backfill
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MinJobAge=300
KillWait=5
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory={memory} State=UNKNOWN
PartitionName=debug Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""

SMALL = ("experiments=scaling", "d_k=[16,32]", "n_k=16", "n_q=8", "seeds=4", "shard_seeds=1")
"""A run of 8 shards and their expectations; with `job_minutes=0` each is a job."""

LONG = (
    *("experiments=scaling", "d_k=[512,1024]", "n_k=1024", "n_q=1024", "seeds=16"),
    "shard_seeds=8",
)
"""A run whose jobs last long enough to be stopped while they measure."""


def say(text: str) -> None:
    """Print a line with the time."""
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def started(command: list[str], pid_file: Path) -> int:
    """Start a daemon and return its process number."""
    subprocess.run(command, check=True)
    wait_for(lambda: pid_file.exists() and pid_file.read_text().strip() != "", command[-1])
    return int(pid_file.read_text())


def wait_for(there: Callable[[], bool], what: str, limit: float = 300) -> None:
    """Wait for an event. Raises TimeoutError."""
    end = time.monotonic() + limit
    while not there():
        if time.monotonic() > end:
            raise TimeoutError(what)
        time.sleep(0.2)


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[None]:
    """Start a cluster of this machine, and end each of its daemons by its number."""
    for name in ("state", "spool", "munge"):
        (folder / name).mkdir(mode=0o755)
    host = socket.gethostname().split(".")[0]
    memory = psutil.virtual_memory().total // 2**20 * 3 // 4
    conf = folder / "slurm.conf"
    conf.write_text(SLURM_CONF.format(host=host, folder=folder, cpus=os.cpu_count(), memory=memory))
    saved = CONF.with_suffix(".conf.saved")
    if CONF.exists() or CONF.is_symlink():
        CONF.rename(saved)
    CONF.symlink_to(conf)
    daemons: dict[str, int] = {}
    try:
        munge = folder / "munge"
        shutil.chown(munge, "munge", "munge")
        Path("/run/munge").mkdir(exist_ok=True)
        shutil.chown("/run/munge", "munge", "munge")
        pid_file = munge / "munged.pid"
        daemons["munged"] = started(
            ["setpriv", "--reuid=munge", "--regid=munge", "--clear-groups", "munged",
             f"--pid-file={pid_file}", f"--log-file={munge}/munged.log",
             f"--seed-file={munge}/seed"],
            pid_file,
        )  # fmt: skip
        daemons["slurmctld"] = started(["slurmctld", "-c"], folder / "slurmctld.pid")
        daemons["slurmd"] = started(["slurmd", "-c"], folder / "slurmd.pid")
        wait_for(lambda: "idle" in text_of("sinfo", "--noheader", "--format=%t"), "an idle node")
        say(f"SLURM {text_of('sinfo', '--version').split()[-1]}, {os.cpu_count()} CPUs: {daemons}")
        yield
    finally:
        text_of("scancel", "--user=root")
        for name, number in reversed(daemons.items()):
            with contextlib.suppress(psutil.NoSuchProcess):
                process = psutil.Process(number)
                process.terminate()
                process.wait(60)
            say(f"{name} ({number}) ended")
        CONF.unlink()
        if saved.exists():
            saved.rename(CONF)


def text_of(*command: str) -> str:
    """Return the output of a command."""
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def queue() -> list[str]:
    """Return the jobs that wait or run."""
    return text_of("squeue", "--noheader", "--states=PD,R", "--format=%i").split()


def running() -> list[str]:
    """Return the jobs that run."""
    return text_of("squeue", "--noheader", "--states=R", "--format=%i").split()


def command(folder: Path, *options: str, config: tuple[str, ...]) -> list[str]:
    """Return the command of a run with its results in a folder."""
    return [
        sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile"),
        "--directory", str(folder), *options, "--config", *config,
    ]  # fmt: skip


ON_SLURM = (
    *("--workflow-profile", str(ROOT / "profiles/slurm"), "--jobs", "8"),
    *("--slurm-init-seconds-before-status-checks", "3", "--slurm-no-account"),
)
HERE = ("--workflow-profile", str(ROOT / "profiles/default"), "--cores", "2")


def run(folder: Path, *options: str, config: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    """Run to the end."""
    folder.mkdir(exist_ok=True)
    return subprocess.run(
        command(folder, *options, config=config), capture_output=True, text=True, check=False
    )


def start(folder: Path, config: tuple[str, ...]) -> subprocess.Popen[str]:
    """Start a run on the cluster."""
    folder.mkdir(exist_ok=True)
    with (folder / "run.log").open("a") as log:
        return subprocess.Popen(
            command(folder, *ON_SLURM, config=config), stdout=log, stderr=log, text=True
        )


def said(folder: Path) -> str:
    """Return what the runs of `start` printed."""
    return (folder / "run.log").read_text()


def tables(folder: Path) -> dict[str, bytes]:
    """Return the bytes of every table and figure of the runs in a folder."""
    results = folder / "results"
    files = [path for end in ("csv", "svg") for path in results.glob(f"*/**/*.{end}")]
    return {
        str(path.relative_to(results)): path.read_bytes()
        for path in files
        if "shards" not in path.parts
    }


def need(ok: object, what: str) -> None:
    """Print a finding; end if it is not as it should be."""
    say(f"{'ok' if ok else 'FAILED'}: {what}")
    if not ok:
        raise SystemExit(1)


def compare(base: Path, name: str, config: tuple[str, ...]) -> None:
    """Run a grid here and on SLURM, and compare every table and figure."""
    here, there = base / f"{name}-here", base / f"{name}-slurm"
    need(run(here, *HERE, config=config).returncode == 0, f"{name}: a run on this machine")
    started_at = time.monotonic()
    done = run(there, *ON_SLURM, config=config)
    took = time.monotonic() - started_at
    jobs = len(re.findall("has been submitted", done.stdout + done.stderr))
    need(
        done.returncode == 0,
        f"{name}: a run on SLURM, {took:.0f} s{done.stderr[-2000:] * (done.returncode != 0)}",
    )
    say(f"{name}: {jobs} jobs; {len(list(there.glob('results/shards/*/*.csv')))} shards")
    one, other = tables(here), tables(there)
    need(one == other and one, f"{name}: {len(one)} tables and figures have the same bytes")
    again = run(there, *HERE, "-n", config=config)
    need("Nothing to be done" in again.stderr, f"{name}: nothing is left to do on this machine")


def requests() -> list[tuple[int, int]]:
    """Return the memory in MB and the minutes that the jobs in the queue have asked for."""
    lines = text_of("squeue", "--noheader", "--states=PD,R", "--format=%m %l").splitlines()
    found = []
    for line in lines:
        memory, limit = line.split()
        unit = 1024 if memory.endswith("G") else 1
        clock = [int(part) for part in limit.split(":")]
        found.append((round(float(memory.rstrip("MG")) * unit), clock[-2] + 60 * sum(clock[:-2])))
    return found


def changed(base: Path) -> None:
    """Run a grid here, and a larger one on SLURM into the same folder: other shards are missing."""
    folder, target = base / "changed", "scaling"
    common = ("d_k=16", "n_k=16", "shard_seeds=2", "name=one")
    done = run(folder, target, *HERE, config=(*common, "scaling=on", "seeds=2"))
    need(done.returncode == 0, "changed: scaling=on seeds=2 on this machine")
    larger = (*common, "scaling=[off,on]", "seeds=4")
    done = run(folder, target, *ON_SLURM, "--jobs", "1", config=larger)
    need(done.returncode == 0, "changed: scaling=[off,on] seeds=4 on SLURM, on the same disk")
    need(run(base / "larger", target, *HERE, config=larger).returncode == 0, "changed: here alone")
    need(tables(folder) == tables(base / "larger"), "changed: the same bytes as here alone")


def refused(base: Path) -> None:
    """Ask for more memory than any node has: the jobs are named, and why SLURM refused them."""
    sizes = ("experiments=scaling", "d_k=16", "n_k=[16,32]", "n_q=8", "seeds=2", "job_minutes=0")
    large = ("--set-resources", "measure_shard:mem_mb=10000000")
    done = run(base / "refused", "scaling", *ON_SLURM, *large, config=sizes)
    need(done.returncode == 1, "refused: a run whose jobs no node has memory for fails")
    end = done.stderr.rpartition("sqrtdk: ")[2].splitlines()
    need(end[0].startswith("2 failed") and len(end) == 3, "refused: both jobs are named, once")
    say(f"refused: {end[1].strip()}")
    need("sbatch failed" in end[1], "refused: the line has what SLURM says")


def cancelled(base: Path) -> None:
    """Cancel one job; the run repeats it, with twice its memory and time, and succeeds."""
    folder = base / "cancelled"
    process = start(folder, (*LONG, "job_minutes=0"))
    wait_for(lambda: bool(running()), "a running job")
    time.sleep(2)
    victim = running()[0]
    asked = requests()
    subprocess.run(["scancel", victim], check=True)
    say(f"cancelled: scancel {victim}")
    wait_for(lambda: any(one not in asked for one in requests()), "the job again")
    (again,) = {one for one in requests() if one not in asked}
    before = again[0] // 2, again[1] // 2
    need(
        before in asked,
        "cancelled: asked for {} MB and {} minutes, then for {} and {}".format(*before, *again),
    )
    code = process.wait()
    text = said(folder)
    need(code == 0, f"cancelled: the run succeeds{text[-2000:] * (code != 0)}")
    need("Trying to restart job" in text, "cancelled: the job was repeated")


def stopped(base: Path, number: signal.Signals) -> None:
    """Stop a run; its jobs are cancelled, and the same command finishes it."""
    folder = base / f"stopped-{number.name}"
    process = start(folder, (*LONG, "job_minutes=0"))
    wait_for(lambda: bool(running()) and len(queue()) >= 4, "jobs")
    jobs = queue()
    process.send_signal(number)
    code = process.wait()
    need(code == 128 + number, f"{number.name}: exit code {code}")
    wait_for(lambda: not queue(), "an empty queue", 60)
    need(
        f"{len(jobs)} jobs on the cluster cancelled" in said(folder),
        f"{number.name}: {len(jobs)} jobs cancelled",
    )
    done = run(folder, *ON_SLURM, config=(*LONG, "job_minutes=0"))
    need(done.returncode == 0, f"{number.name}: the same command finishes the run")


def killed(base: Path) -> None:
    """Kill a run; its jobs live on, and the same command cancels them and finishes."""
    folder = base / "killed"
    process = start(folder, (*LONG, "job_minutes=0"))
    wait_for(lambda: bool(running()) and len(queue()) >= 4, "jobs")
    process.kill()
    process.wait()
    orphans = queue()
    need(orphans, f"killed: {len(orphans)} jobs live on after kill -9")
    again = start(folder, (*LONG, "job_minutes=0"))
    wait_for(lambda: "left by an earlier run" in said(folder), "the line about the orphans")
    wait_for(lambda: not set(orphans) & set(queue()), "the end of the orphans", 60)
    say(re.findall("sqrtdk: left by an earlier run.*", said(folder))[-1])
    need(again.wait() == 0, "killed: the same command finishes the run")
    here = base / "long-here"
    need(run(here, *HERE, config=LONG).returncode == 0, "long: a run on this machine")
    for other in ("killed", "cancelled", "stopped-SIGINT", "stopped-SIGTERM"):
        if (base / other).is_dir():
            need(tables(base / other) == tables(here), f"{other}: the same bytes as here")


def main() -> None:
    """Run every test, or those with some names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--grid", default="smoke")
    given = parser.parse_args()
    # A shell ignores Ctrl-C for what it starts in the background, and so would the runs.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing:
        print(f"not run: {', '.join(missing)} not found")
        return
    tests: dict[str, Callable[[Path], None]] = {
        "small": lambda base: compare(base, "small", (*SMALL, "job_minutes=0")),
        "changed": changed,
        "refused": refused,
        "cancelled": cancelled,
        "interrupted": lambda base: stopped(base, signal.SIGINT),
        "terminated": lambda base: stopped(base, signal.SIGTERM),
        "killed": killed,
        "grid": lambda base: compare(base, given.grid, (f"grid={given.grid}",)),
    }
    with tempfile.TemporaryDirectory(prefix="slurm-") as name:
        base = Path(name)
        # The daemons' users must be able to enter it.
        base.chmod(0o755)
        (base / "cluster").mkdir()
        with cluster(base / "cluster"):
            for word, test in tests.items():
                if not given.only or word in given.only:
                    test(base)
    say("all as it should be")


if __name__ == "__main__":
    main()
