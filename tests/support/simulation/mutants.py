"""Faults in the product, one each: the rule that it leaves out, and by which names the simulation must find it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from airflow_stream_provider.lifecycle import rules

Patch = Callable[[pytest.MonkeyPatch], None]


class Mutants(list[tuple[Patch, frozenset[str]]]):
    """Faults of one kind, each with the names of the invariants that it breaks: whichever the seed comes to first."""

    def found_as(self, *names: str) -> Callable[[Patch], Patch]:
        """Add a mutant that breaks these invariants."""

        def add(patch: Patch) -> Patch:
            self.append((patch, frozenset(names)))
            return patch

        return add


def without_rule(patch: pytest.MonkeyPatch, kind: str, name: str) -> None:
    """Leave one rule out for whoever reads or writes."""
    patch.setitem(rules.RULES, kind, tuple(rule for rule in rules.RULES[kind] if rule.name != name))


def everywhere(patch: pytest.MonkeyPatch, function: Callable[..., Any], other: Callable[..., Any]) -> None:
    """Put another function in its place in every module of the provider that uses it."""
    for name, module in list(sys.modules.items()):
        if name.startswith("airflow_stream_provider.") and getattr(module, function.__name__, None) is function:
            patch.setattr(module, function.__name__, other)
