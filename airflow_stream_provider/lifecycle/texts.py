"""Texts for people: plain, without secrets, and with numbers that are easy to read.

Records, heartbeats, errors and XCom are read by more people than may know a password, and drivers write some of them:
this module travels to the driver. It finds a value that stands after a name (`password=…`, JSON, `--token …`, Scala's
maps and tuples), the userinfo of a URL, an authorization header, a private key and the few tokens that have a form of
their own. It is a net for mistakes, not a proof: a password without a name looks like any other word.
"""

from __future__ import annotations

import re
from typing import Any

# Halves of surrogate pairs, which no encoding takes (a path with an undecodable byte has them); NUL, which PostgreSQL
# does not store; and what else steers a terminal, or turns the direction of what follows. Line ends and tabs stay.
_STEERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def plain(text: str) -> str:
    """Return the text with U+FFFD in the place of every character that cannot be encoded or steers a terminal."""
    return _STEERS.sub("\ufffd", text)


def plain_within(value: Any) -> Any:
    """Return the value with every text in it made plain, in lists and mappings too, keys included."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, dict):
        return {plain_within(key): plain_within(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_within(part) for part in value]
    return value


HIDDEN = "***"

# The names that Spark itself redacts (the default of spark.redaction.regex), other spellings of them, the keys of
# object stores, and settings of Kafka and its schema registry that hold a password although their names do not say so.
_WORDS = (
    r"(?:secret|passw(?:or)?d|passphrase|pwd|token|(?:access|account|api|encryption|private)[._-]?key"
    r"|sasl[._-]jaas[._-]config|auth[._-]?user[._-]?info)"
)
_NAME = re.compile(_WORDS, re.IGNORECASE)
# Words that are no names of columns or lambda variables, which stand before an arrow and in tuples, too.
_NO_COLUMN = _WORDS.replace("|token|", r"|[\w.-]token|")
# An argument's own name has to end in one of the words: --max-tokens, --tokenizer and --password-file hold no secret.
_ENDS_IN_NAME = re.compile(rf"{_WORDS}\Z", re.IGNORECASE)
# Azure's settings end in the account: fs.azure.account.key.ACCOUNT.dfs.core.windows.net.
_WITH_ACCOUNT = r"(?:secret|(?:access|account|api|encryption|private)[._-]?key)\.[\w.-]{1,64}"
_ENDS_IN_ACCOUNT = re.compile(rf"{_WITH_ACCOUNT}\Z", re.IGNORECASE)
# GOOGLE_APPLICATION_CREDENTIALS is the path of a file, and fs.s3a.aws.credentials.provider a class.
_CREDENTIALS = re.compile(r"credentials?\Z", re.IGNORECASE)
_PATH = re.compile(r"(?:/|\./|file:)")
_NAMES_A_PLACE = re.compile(r"(?:file|path|provider|location|dir|class)s?\Z", re.IGNORECASE)

# The userinfo of any URL when it has a password, of a web address always (a token may be the user's name). Others are
# no secret: abfss://container@account.dfs.core.windows.net is where Azure keeps a checkpoint.
_USERINFO = re.compile(r"(?P<web>https?)?://(?P<info>[^\s/?#\"'<>]*)@", re.IGNORECASE)
_VALUE = r"(?!\*\*\*)(?:(?P<quote>\\*[\"']).*?(?:(?P=quote)|\Z)|[^\s\"'\\]+)"
_TEXTS = tuple(
    re.compile(pattern, re.IGNORECASE | re.DOTALL)
    for pattern in (
        r"(?P<keep>)-----BEGIN [A-Z ]*PRIVATE KEY-----(?:.*?-----END [A-Z ]*PRIVATE KEY-----|.*)",
        r"(?P<keep>authorization[\"']?\s*[:=]\s*[\"']?(?:\w+\s+)?)[^\s\"',]+",
        r"(?P<keep>\bbearer\s+)[\w.~+/=-]{16,}",
        # Azure's shared access signatures, and Google's and Amazon's signed addresses.
        r"(?P<keep>[?&](?:sig|x-amz-signature|x-goog-signature)=)[^\s&\"']+",
        # Addresses of webhooks: knowing one is enough to post there.
        r"(?P<keep>https://(?:hooks\.slack\.com/\w{1,20}|discord(?:app)?\.com/api/(?:v\d{1,3}/)?webhooks"
        r"|[\w.-]{1,100}\.webhook\.office\.com|outlook\.office(?:365)?\.com/webhook)/)(?!\*\*\*)[^\s\"']+",
        # name=value, "name": "value", \"name\": \"value\", 'name': 'value', -Dname.more=value
        rf"(?P<keep>{_WORDS}[\w.-]{{0,64}}(?:\\*[\"']\s*:|\\*[\"']?\s*=>?)\s*){_VALUE}",
        rf"(?P<keep>credentials?(?:\\*[\"']\s*:|\\*[\"']?\s*=>?)\s*(?![\"']?{_PATH.pattern})){_VALUE}",
        # password: value; of a token a parser speaks this way, too
        rf"(?P<keep>(?:secret|passw(?:or)?d|passphrase|[._-]key)\s*:\s+){_VALUE}",
        # --name value, also in the list of a command line
        rf"(?P<keep>(?<![\w-])--?[\w.-]{{0,64}}(?:{_WITH_ACCOUNT}|{_WORDS})(?:[\"'],)?\s+(?!-)){_VALUE}",
        rf"(?P<keep>(?<![\w-])--?[\w.-]{{0,64}}credentials?(?:[\"'],)?\s+(?!-|[\"']?{_PATH.pattern})){_VALUE}",
        # Scala's maps: name -> value; and tuples: ('name', 'value'), (spark.some.name,value)
        rf"(?P<keep>{_NO_COLUMN}[\w.-]{{0,64}}\s*->\s*){_VALUE}",
        rf"(?P<keep>\(\\*[\"'](?:[\w.-]{{0,64}}{_NO_COLUMN}[\w.-]{{0,64}})\\*[\"'],\s*){_VALUE}",
        rf"(?P<keep>\((?=\w[\w-]{{0,64}}\.[\w-]{{1,64}}\.)[\w.-]{{0,100}}{_WORDS}[\w.-]{{0,64}},\s?){_VALUE}",
        r"(?P<keep>)\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
        # Not \b: within one long word of dashes and eyJ each of these would look for the dot again.
        r"(?P<keep>)(?<![\w-])eyJ[\w-]{8,}\.[\w-]+\.[\w-]*",
    )
)


def redact(text: str) -> str:
    """Return the text with three asterisks in the place of every value that looks like a secret."""
    text = _USERINFO.sub(_without_userinfo, text)
    for pattern in _TEXTS:
        text = pattern.sub(_hidden, text)
    return text


def redact_within(value: Any) -> Any:
    """Return the value with every text in it redacted, in lists and mappings too; their keys stay."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {key: redact_within(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [redact_within(part) for part in value]
    return value


def holds_secret(text: str) -> bool:
    """Return whether `redact` finds something in the text."""
    return redact(text) != text


def secret_setting(name: str, value: str) -> bool:
    """Return whether a setting (Spark conf, environment variable) looks like a secret, by its name or its value."""
    if _CREDENTIALS.search(name):
        return bool(value) and not _PATH.match(value)
    return (bool(_NAME.search(name)) and not _NAMES_A_PLACE.search(name)) or holds_secret(value)


def secret_option(name: str, value: str) -> bool:
    """Return whether an option of a command line is named like a secret.

    :param name: without its dashes.
    :param value: what follows it; empty if nothing does.
    """
    if _CREDENTIALS.search(name):
        return not _PATH.match(value)
    return bool(_ENDS_IN_NAME.search(name)) or bool(_ENDS_IN_ACCOUNT.search(name) and not _NAMES_A_PLACE.search(name))


def _without_userinfo(found: re.Match[str]) -> str:
    if found["web"] or ":" in found["info"]:
        return f"{found['web'] or ''}://{HIDDEN}@"
    return found[0]


def _hidden(found: re.Match[str]) -> str:
    return f"{found['keep']}{HIDDEN}"


_UNITS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))


def duration(seconds: float | None) -> str:
    """Return a duration in its two largest units, such as ``2 h 5 min``; ``?`` when it is unknown."""
    if seconds is None:
        return "?"
    left = round(max(0.0, seconds))
    if left == 0:
        return "0 s"
    parts = []
    for name, size in _UNITS:
        count, left = divmod(left, size)
        parts.append((count, name))
    first = next(i for i, (count, _) in enumerate(parts) if count)
    return " ".join(f"{count} {name}" for count, name in parts[first : first + 2] if count)


def count(number: int | None, what: str = "") -> str:
    """Return a number with thousands separators, such as ``12,000 records``; ``?`` when it is unknown."""
    text = "?" if number is None else f"{number:,}"
    if not what:
        return text
    return f"{text} {what if number == 1 else what + 's'}"
