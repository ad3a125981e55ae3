"""Stands in for the launcher where there is no Spark: says what `app_facts.py` says, and stays until it is ended."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

found, code = sys.argv[sys.argv.index("--") + 1 :]
if code != "stay":
    sys.exit(int(code))
region = os.environ.get("REGION", "")
facts = {"total": 12, "pid": os.getpid(), "regions": [region, region], "application": "none"}
Path(f"{found}.part").write_text(json.dumps(facts))
Path(f"{found}.part").rename(found)
while True:
    time.sleep(60)
