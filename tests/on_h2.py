"""Run our code unedited on h2, the library that jh2 began as (docs/decisions/0002).

pytest -p tests.on_h2 ...             tests
python -m tests.on_h2 MODULE ...      a program
"""

import runpy
import sys
from importlib import import_module

_MODULES = ("config", "connection", "errors", "events", "exceptions", "settings")

sys.modules["jh2"] = import_module("h2")
for _name in _MODULES:
    sys.modules[f"jh2.{_name}"] = import_module(f"h2.{_name}")
sys.modules["jh2.hyperframe"] = import_module("hyperframe")
sys.modules["jh2.hyperframe.frame"] = import_module("hyperframe.frame")

if __name__ == "__main__":
    sys.argv = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
