"""The HTML of the page. Every value is escaped: names and reasons are what somebody wrote."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from airflow_stream_provider.cli.tables import brief
from airflow_stream_provider.lifecycle.rewind import at
from airflow_stream_provider.lifecycle.texts import count, duration, plain

if TYPE_CHECKING:
    from jinja2 import Environment

STYLE = """\
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 78em; margin: 1.5em auto; padding: 0 1em; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .35em .8em .35em 0; border-bottom: 1px solid #8886; }
td { overflow-wrap: anywhere; }
.lines { white-space: pre-line; }
.answer { border-left: .3em solid #888; padding-left: 1em; }
.rest { color: #777; }
.good { color: #1a7f37; } .warn, .unknown { color: #9a6700; } .bad { color: #cf222e; font-weight: bold; }
.small { color: #777; font-size: 90%; }
"""

_BASE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{% block title %}Streams{% endblock %}</title>
<link rel="stylesheet" href="page.css">
</head>
<body>
{% block body %}{% endblock %}
{% if now is defined %}<p class="small">Read at {{ now | at }}. Load the page again for what is now.</p>{% endif %}
</body>
</html>
"""

_LIST = """\
{% extends "base" %}
{% block body %}
<h1>Streams</h1>
{% if streams %}
<table>
<tr><th>stream</th><th>state</th><th>holder</th><th>release</th><th>since</th><th>behind, oldest</th>
<th>last change of holder</th></tr>
{% for shown, row in streams %}
<tr>
<td><a href="stream?dag_id={{ shown.form | urlencode }}">{{ shown.stream.name }}</a>
<div class="small">{{ shown.form }}</div></td>
<td class="{{ row.tone }}">{{ row.words }}</td>
<td>{{ row.holder or "-" }}</td>
<td>{{ row.release or "-" }}</td>
<td>{{ row.since | at }}</td>
<td>{% if row.lag %}{{ row.lag.records | count }}, {{ row.lag.seconds | duration }}
<div class="small">{{ (now - row.lag.at) | duration }} ago</div>{% else %}-{% endif %}</td>
<td>{% if row.upgrade %}{{ row.upgrade.words }}: {{ row.upgrade.reason or "no reason given" }}
<div class="small">{{ row.upgrade.at | at }}, by <span class="lines">{{ row.upgrade.by or "?" }}</span></div>
{% else %}-{% endif %}</td>
</tr>
{% for problem in (shown.stream.problem, row.problem) if problem %}
<tr><td></td><td colspan="6" class="unknown">{{ problem }}</td></tr>
{% endfor %}
{% endfor %}
</table>
{% else %}
<p>There is no stream of which you may read the DAG <code>NAME__operate</code>.</p>
{% endif %}
{% endblock %}
"""

_STREAM = """\
{% extends "base" %}
{% block title %}{{ shown.stream.name }}{% endblock %}
{% block body %}
<p><a href="./">All streams</a></p>
<h1>{{ shown.stream.name }}: <span class="{{ row.tone }}">{{ row.words }}</span></h1>
{% for problem in (shown.stream.problem, row.problem) if problem %}<p class="unknown">{{ problem }}</p>{% endfor %}

<h2>Can I roll back now, and what is read again?</h2>
<div class="answer">
{% if answer is string %}
<p><strong>That is not known.</strong></p>
<p id="answer" class="lines">{{ answer }}</p>
{% else %}
<p><strong>{{ answer.word }}</strong></p>
<p id="answer" class="lines">{{ answer.lines | join("\\n") }}</p>
{% endif %}
</div>
<p>To do it: trigger <a href="../dags/{{ shown.form | urlencode }}">{{ shown.form }}</a> with <code>roll-back</code>, or
<code>airflow streams roll-back {{ shown.stream.name }} --reason "…"</code>, with <code>--folder</code>
where its YAML lies elsewhere than the command looks by itself: there may be another stream of this name.
Both say this again, and ask.
Other DAGs: <a href="../dags/{{ shown.upgrade | urlencode }}">{{ shown.upgrade }}</a>
{%- for watch in shown.watches %}, <a href="../dags/{{ watch | urlencode }}">{{ watch }}</a>{% endfor %}.</p>

<h2>Who is there</h2>
<table>
<tr><th>driver</th><th>release</th><th></th></tr>
{% for driver in said.drivers %}
<tr><td>{{ driver.id }}</td><td>{{ driver.version }}</td>
<td>{{ driver.role }}{% if driver.role == "holder" %} since {{ row.since | at }}{% endif %}: {{ driver.says }}
{%- if driver.sign_at is not none %}, last sign of life {{ (now - driver.sign_at) | duration }} ago{% endif %}
{%- if driver.ui %} (<a href="{{ driver.ui }}" rel="noopener noreferrer">Spark UI</a>){% endif %}</td></tr>
{% else %}
<tr><td colspan="3">{{ "not known" if said.problem else "nobody" }}</td></tr>
{% endfor %}
</table>

{% if said.queries %}
<h2>Its queries</h2>
<table>
<tr><th>query</th><th></th><th>batch</th><th>why</th></tr>
{% for query in said.queries %}
<tr><td>{{ query.name }}</td>
<td class="{{ query.tone }}">{{ query.words }}{% if query.seconds %} for {{ query.seconds | duration }}{% endif %}
{%- if query.failures %}, {{ query.failures }} times{% endif %}</td>
<td>{{ "-" if query.batch is none else query.batch }}</td>
<td>{{ query.error }} {{ query.cause }}{% if query.reads %}
<div class="small">{{ query.reads }}</div>{% endif %}</td></tr>
{% endfor %}
</table>
{% endif %}

<h2>What has happened</h2>
{% if said.problem %}
<p class="unknown">{{ said.problem }}</p>
{% else %}
<table>
<tr><th>at</th><th>what</th><th>release</th><th>driver</th><th>who</th><th>why</th><th>gap</th></tr>
{% for event in said.events %}
<tr><td>{{ event.at | at }}</td><td class="{{ event.tone }}">{{ event.words }}</td><td>{{ event.version or "-" }}</td>
<td>{{ event.driver or "-" }}</td><td class="lines">{{ event.by or "?" }}</td><td>{{ event.reason }}</td>
<td>{% if event.gap is not none %}{{ event.gap | brief }}
{%- elif event.free_seconds is not none %}nobody for {{ event.free_seconds | brief }}{% endif %}</td></tr>
{% endfor %}
</table>
<p class="small">The newest first; all of it: <code>airflow streams history {{ shown.stream.name }}</code></p>
{% endif %}
{% endblock %}
"""

_MISSING = """\
{% extends "base" %}
{% block body %}
<p><a href="./">All streams</a></p>
<p>There is no such stream, or you may not read its DAG.</p>
{% endblock %}
"""


def render(name: str, **values: object) -> str:
    """Return a page: `list`, `stream` or `missing`."""
    return _environment().get_template(name).render(**values)


@cache
def _environment() -> Environment:
    from jinja2 import DictLoader, Environment, StrictUndefined

    pages = {"base": _BASE, "list": _LIST, "stream": _STREAM, "missing": _MISSING}
    found = Environment(
        loader=DictLoader(pages),
        autoescape=True,
        undefined=StrictUndefined,
        # As in a terminal: what turns the direction of a text, or steers, is not shown.
        finalize=lambda value: plain(value) if isinstance(value, str) else value,
    )
    found.filters.update(at=_at, brief=brief, count=count, duration=duration)
    return found


def _at(seconds: float | None) -> str:
    # In UTC: the reader's time zone is not known here.
    return "-" if seconds is None else at(seconds // 1)
