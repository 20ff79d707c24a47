"""Run tests on h2 instead of jh2, whose code it began as: `pytest -p tests.on_h2`.

Our own code is the same, unedited. This keeps the way out open (docs/decisions/0055).
"""

import sys
from importlib import import_module

_MODULES = ("config", "connection", "errors", "events", "exceptions", "settings")

sys.modules["jh2"] = import_module("h2")
for _name in _MODULES:
    sys.modules[f"jh2.{_name}"] = import_module(f"h2.{_name}")
sys.modules["jh2.hyperframe"] = import_module("hyperframe")
sys.modules["jh2.hyperframe.frame"] = import_module("hyperframe.frame")
