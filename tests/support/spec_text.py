"""The YAML of a stream, to be given a name."""

from __future__ import annotations

SPEC = (
    "name: {name}\napplication: apps/a.py\nversion: v1\ncluster: c\ncontrol: file:///d\nconf: {{spark.cores.max: 2}}\n"
)
