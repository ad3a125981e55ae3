"""Profiles of the model check: HYPOTHESIS_PROFILE=long for a run of its own, not part of `make test`."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings

_COMMON = {"deadline": None, "suppress_health_check": list(HealthCheck)}
settings.register_profile("default", max_examples=300, stateful_step_count=40, derandomize=False, **_COMMON)
settings.register_profile("long", max_examples=1_000_000, stateful_step_count=80, **_COMMON)
settings.register_profile(
    "debug", max_examples=3000, stateful_step_count=40, phases=[Phase.generate], report_multiple_bugs=False, **_COMMON
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
