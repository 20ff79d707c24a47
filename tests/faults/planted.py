"""Faults that are planted into the product, to see that the campaign finds them.

`python -m tests.faults.planted` plants each in a copy of the package, which an interpreter of its
own imports, and runs the campaign on it until something is wrong. A fault that the campaign does
not find within `--faults` faults fails the run: then its zero says nothing. `--only NAME` plants
one.
"""

import argparse
import os
import shutil
import site
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import agent_memory

PACKAGE = Path(agent_memory.__file__).parent
ROOT = Path(__file__).parents[2]
FAULTS = 200


@dataclass(frozen=True, slots=True)
class Planted:
    """A change of one place in the package."""

    name: str
    file: str
    old: str
    new: str

    def apply(self, package: Path) -> None:
        path = package / self.file
        source = path.read_text()
        if source.count(self.old) != 1:
            raise ValueError(f"{self.name}: {self.file} no longer has this place once")
        path.write_text(source.replace(self.old, self.new))


COMMITTER = "platform/store/committer.py"
ROCKS = "platform/store/rocks.py"
DURABLE = "platform/durable.py"
NOTES = "features/memories/adapters/git/"

PLANTED = (
    Planted(
        "a flush skipped once in 20 commits",
        COMMITTER,
        "                        self._engine.flush()\n                    except (Stalled",
        "                        self._skips = getattr(self, '_skips', 0) + 1\n"
        "                        if self._skips % 20:\n"
        "                            self._engine.flush()\n"
        "                    except (Stalled",
    ),
    Planted(
        "a failed flush taken for a good one",
        ROCKS,
        '            raise self._to_storage_error("flush", exc) from exc\n',
        "            log = self._to_storage_error('flush', exc)\n",
    ),
    Planted(
        "files replaced without a sync of their content",
        DURABLE,
        "            file.flush()\n            os.fsync(descriptor)\n",
        "            file.flush()\n",
    ),
    Planted(
        "an answer before the flush",
        COMMITTER,
        "        if operations:\n            self._write(operations)\n"
        "            self._sequences = plan.sequences\n"
        "        for submission, outcomes in planned:\n"
        "            submission.future.set_result(outcomes)\n",
        "        if operations:\n            self._engine.write(operations)\n"
        "            self._sequences = plan.sequences\n"
        "        for submission, outcomes in planned:\n"
        "            submission.future.set_result(outcomes)\n"
        "        if operations:\n            time.sleep(0.02)\n            self._engine.flush()\n",
    ),
    Planted(
        "names of new folders not synced",
        DURABLE,
        "            sync_folder(path.parent)\n\n\ndef list_missing",
        "            pass\n\n\ndef list_missing",
    ),
    Planted(
        "replaced files whose folder is not synced",
        DURABLE,
        "    sync_folder(path.parent)\n    with contextlib.suppress(OSError):\n",
        "    with contextlib.suppress(OSError):\n",
    ),
    Planted(
        "one submission of 30 answered and left out",
        COMMITTER,
        "        plan, planned = self._plan(submissions)\n",
        "        plan, planned = self._plan(submissions)\n"
        "        self._left = getattr(self, '_left', 0) + 1\n"
        "        if not self._left % 30:\n"
        "            plan = Plan(self._engine, self._sequences)\n",
    ),
    Planted(
        "a group written in two parts, of which one is flushed",
        COMMITTER,
        "                        self._engine.write(operations)\n"
        "                        self._engine.flush()\n",
        "                        half = len(operations) // 2\n"
        "                        self._engine.write(operations[:half])\n"
        "                        self._engine.flush()\n"
        "                        self._engine.write(operations[half:])\n",
    ),
    Planted(
        "a log that is not written",
        ROCKS,
        "        self._no_stall.no_slowdown = True\n",
        "        self._no_stall.no_slowdown = True\n        self._no_stall.disable_wal = True\n",
    ),
    Planted(
        "a hook answered before it is recorded",
        "features/hooks/services/handling.py",
        "        recorded = self._record(task)\n"
        "        injection = self._build_context(task, reply)\n"
        "        if not options.gives(call.kind):  # what was captured meanwhile stays\n"
        "            injection = NOTHING\n"
        "        recorded.result()\n",
        "        late = lambda: (threading.Event().wait(0.2), self._record(task))\n"
        "        self.background.submit(late)\n"
        "        injection = self._build_context(task, reply)\n",
    ),
    Planted(
        "a spool file written in its place",
        "features/hooks/adapters/spool.py",
        "            write_atomic(self._folder / name, data)\n",
        "            (self._folder / name).write_bytes(data)\n",
    ),
    Planted(
        "the files of a backup not synced",
        "features/backups/adapters/snapshots.py",
        "                sync_tree(work)\n",
        "                pass\n",
    ),
    Planted(
        "notes taken out of the queue before they are written",
        "features/memories/services/note_writer.py",
        "                changed = {key: self.memories.get(key) for _, key in pending}\n",
        "                changed = {key: self.memories.get(key) for _, key in pending}\n"
        "                self.queue.mark_done([ticket for ticket, _ in pending])\n",
    ),
    Planted(
        "objects of notes not synced",
        NOTES + "repositories.py",
        "pygit2.settings.enable_fsync_gitdir(True)",
        "pygit2.settings.enable_fsync_gitdir(False)",
    ),
    Planted(
        "new folders of objects not synced",
        NOTES + "syncing.py",
        '    durable.sync_folder(home / "objects")\n',
        "    pass\n",
    ),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=FAULTS)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", action="append", help="the name of a planted fault")
    options = parser.parse_args()
    chosen = [each for each in PLANTED if not options.only or each.name in options.only]
    with ThreadPoolExecutor(options.jobs) as pool:
        found = list(pool.map(lambda each: _is_found(each, options.faults), chosen))
    missed = [each.name for each, seen in zip(chosen, found, strict=True) if not seen]
    _say(f"{sum(found)} of {len(chosen)} planted faults found within {options.faults} faults")
    for name in missed:
        _say(f"not found: {name}")
    return 1 if missed or not chosen else 0


def _is_found(planted: Planted, faults: int) -> bool:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="am-planted-") as folder:
        python = install(planted, Path(folder))
        words = ("-m", "tests.faults.campaign", "--faults", str(faults), "--first")
        ran = subprocess.run(
            [str(python), *words], cwd=ROOT, capture_output=True, text=True, check=False
        )
    seen = [line for line in ran.stdout.splitlines() if " acknowledged, " in line]
    harm = [line for line in ran.stdout.splitlines() if line.startswith("  ")]
    found = ran.returncode == 1 and bool(harm) and "proves nothing" not in ran.stdout
    _say(
        f"{planted.name}: {'found' if found else 'NOT FOUND'} at fault {len(seen)},"
        f" {time.monotonic() - began:.0f} s:"
        f" {harm[0].strip()[:160] if harm else ran.stderr[-2000:]}"
    )
    return found


def install(planted: Planted, folder: Path) -> Path:
    """Make an interpreter that imports a copy of the package with this fault."""
    shutil.copytree(PACKAGE, folder / "src" / PACKAGE.name)
    planted.apply(folder / "src" / PACKAGE.name)
    venv.create(folder / "venv", symlinks=True)
    python = folder / "venv/bin/python"
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    paths: Sequence[str] = (str(folder / "src"), *site.getsitepackages())
    (folder / f"venv/lib/{version}/site-packages/planted.pth").write_text(os.linesep.join(paths))
    return python


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
