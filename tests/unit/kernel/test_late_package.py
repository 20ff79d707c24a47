"""Libraries that come at their first use, in interpreters that have loaded nothing else."""

import subprocess
import sys

import pytest

USE_AT_ONCE = """
import sys, threading
from agent_memory.kernel.late_package import LatePackage

late, errors, together = LatePackage("numpy"), [], threading.Barrier(8)

def use():
    together.wait()
    try:
        late.zeros(3)
    except Exception as exc:
        errors.append(exc)

assert "numpy" not in sys.modules
threads = [threading.Thread(target=use) for _ in range(8)]
for each in threads: each.start()
for each in threads: each.join()
assert not errors, errors
assert late.zeros is sys.modules["numpy"].zeros
"""
# Each module, and the library that it must not load by itself.
MODULES = {
    "agent_memory.features.recall.model.ranking": "numpy",
    "agent_memory.features.index.adapters.vectors": "numpy",
    "agent_memory.features.index.adapters.embedder_process": "numpy",
    "agent_memory.platform.store.crc32c": "numpy",
    "agent_memory.features.forgetting.adapters.byte_search": "numpy",
    "agent_memory.features.hooks.adapters.transcripts.opencode": "sqlite3",
    "agent_memory.client": "grpc",
    "agent_memory.client.checkpoints": "grpc",
    "agent_memory.features.runs.interfaces.remote_agents": "grpc",
}


def test_threads_that_come_at_once_all_get_the_whole_package() -> None:
    run(USE_AT_ONCE)


def test_a_name_that_the_package_does_not_have_is_an_attribute_error() -> None:
    run("""
from agent_memory.kernel.late_package import LatePackage
assert not hasattr(LatePackage("json"), "lantern")
""")


@pytest.mark.parametrize("module", MODULES)
def test_a_module_that_may_never_need_a_library_does_not_load_it(module: str) -> None:
    run(f"import sys, {module}; assert {MODULES[module]!r} not in sys.modules")


def run(code: str) -> None:
    done = subprocess.run(
        (sys.executable, "-I", "-c", code), check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
