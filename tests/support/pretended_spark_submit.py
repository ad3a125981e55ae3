"""Stands in for spark-submit where there is no JVM: writes down how it was called, and sends an application or not.

`Pretended.install` puts it on the PATH; what it does is in an environment variable that every spark-submit gets.
"""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

PLAN = "SPARK_TEST_PLAN"


@dataclass(frozen=True)
class Pretended:
    """What it will do, and what it was given.

    :param facts: file that it writes first; it has each call on a line.
    """

    facts: Path

    @classmethod
    def install(cls, folder: Path, monkeypatch: pytest.MonkeyPatch, **plan: Any) -> Pretended:
        """Put it on the PATH, and Hadoop's configuration beside it.

        :param plan: `seconds` that it takes, `to`: URL of the ResourceManager that it sends its application to, `says`:
            what it prints, `code`: with which it ends.
        """
        program = folder / "bin" / "spark-submit"
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f"#!{sys.executable}\n{Path(__file__).read_text()}")
        program.chmod(0o755)
        (folder / "hadoop").mkdir(exist_ok=True)
        (folder / "hadoop" / "yarn-site.xml").write_text("<configuration/>")
        facts = folder / "facts.jsonl"
        monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.setenv("HADOOP_CONF_DIR", str(folder / "hadoop"))
        monkeypatch.setenv(PLAN, json.dumps({"facts": str(facts), **plan}))
        return cls(facts)

    @property
    def calls(self) -> list[dict[str, Any]]:
        """How it was called: argv, environment, content of the keytab in hex, pid."""
        return [json.loads(line) for line in self.facts.read_text().splitlines()] if self.facts.exists() else []


def main() -> None:
    plan = json.loads(os.environ[PLAN])
    keytab = Path(sys.argv[sys.argv.index("--keytab") + 1])
    mode = oct(keytab.stat().st_mode)
    call = {"argv": sys.argv[1:], "environment": dict(os.environ), "keytab": keytab.read_bytes().hex(), "mode": mode}
    with Path(plan["facts"]).open("a") as file:
        file.write(json.dumps({**call, "pid": os.getpid()}) + "\n")
    time.sleep(plan.get("seconds", 0))
    if plan.get("to"):
        conf = dict(word.split("=", 1) for word in sys.argv if "=" in word and word.startswith("spark."))
        name = sys.argv[sys.argv.index("--name") + 1]
        new = json.load(urllib.request.urlopen(_post(f"{plan['to']}/ws/v1/cluster/apps/new-application", {})))
        tags = {"tag": conf["spark.yarn.tags"].split(",")}
        body = {"application-id": new["application-id"], "application-name": name, "application-tags": tags}
        urllib.request.urlopen(_post(f"{plan['to']}/ws/v1/cluster/apps?user.name=streams", body)).read()
    print(plan.get("says", ""), flush=True)
    sys.exit(plan.get("code", 0))


def _post(url: str, body: object) -> urllib.request.Request:
    return urllib.request.Request(url, json.dumps(body).encode(), method="POST")


if __name__ == "__main__" and os.path.basename(sys.argv[0]) == "spark-submit":
    main()
