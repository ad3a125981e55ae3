/** Numbers, lengths and times as people say them. */

// What steers a terminal or turns the direction of a text: who writes a reason does not decide how the page reads.
const STEERS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;
const SUSPECT = new RegExp(`${STEERS.source}|\\\\u`);

function cleaned(value: unknown): unknown {
  if (typeof value === "string") return value.replace(STEERS, "\ufffd");
  if (Array.isArray(value)) return value.map(cleaned);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([key, part]) => [cleaned(key), cleaned(part)]));
}

/** Parse an answer; every text in it is safe to show. */
export function parse(json: string): unknown {
  const value: unknown = JSON.parse(json);
  // Most answers have no such character, and are large.
  return SUSPECT.test(json) ? cleaned(value) : value;
}

const WHOLE = new Intl.NumberFormat("en");
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export const whole = (value: number) => WHOLE.format(value);

export const count = (value: number | null) =>
  value === null ? "-" : Math.abs(value) < 100_000 ? WHOLE.format(Math.round(value)) : SHORT.format(value);

export const many = (value: number, one: string, more = `${one}s`) => `${whole(value)} ${value === 1 ? one : more}`;

export function bytes(value: number | null): string {
  if (value === null) return "-";
  const units = ["B", "kB", "MB", "GB", "TB"];
  const power = value < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log10(value) / 3));
  return `${trimmed(value / 1000 ** power)} ${units[power]}`;
}

const trimmed = (value: number) => (value < 10 ? value.toFixed(1).replace(/\.0$/, "") : whole(Math.round(value)));

/** A length in its two largest units, such as `3.2 s`, `4 min 10 s` or `2 d 3 h`. */
export function duration(seconds: number | null): string {
  if (seconds === null) return "-";
  // A gap is often a few tenths of a second.
  if (seconds < 1) return `${Number(seconds.toFixed(2))} s`;
  if (seconds < 59.5) return `${trimmed(seconds)} s`;
  const units: [number, string][] = [
    [86400, "d"],
    [3600, "h"],
    [60, "min"],
    [1, "s"],
  ];
  const total = Math.round(seconds);
  const first = units.findIndex(([size]) => total >= size);
  const [size, unit] = units[first]!;
  const [smaller, its] = units[first + 1]!;
  const rest = Math.floor((total % size) / smaller);
  const head = `${whole(Math.floor(total / size))} ${unit}`;
  // Of a length of ten or more, nobody reads the rest.
  return rest === 0 || total >= 10 * size ? head : `${head} ${rest} ${its}`;
}

/** How long ago, in one unit: it is read at a glance, and changes seldom. */
export function ago(at: number | null, now: number): string {
  if (at === null) return "-";
  const seconds = now - at;
  if (seconds < 5) return "just now";
  if (seconds < 90) return `${Math.floor(seconds / 5) * 5} s ago`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min ago`;
  if (seconds < 129_600) return `${Math.round(seconds / 3600)} h ago`;
  return `${Math.round(seconds / 86400)} d ago`;
}

// The time zone that the person has chosen in Airflow's UI.
function zone(): string {
  const local = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const chosen = (localStorage.getItem("timezone") ?? "").replaceAll('"', "");
  try {
    return chosen === "" ? local : Intl.DateTimeFormat("en", { timeZone: chosen }).resolvedOptions().timeZone;
  } catch {
    return local;
  }
}

export const ZONE = zone();

const format = (options: Intl.DateTimeFormatOptions) =>
  new Intl.DateTimeFormat("sv-SE", { timeZone: ZONE, ...options });
const CLOCK = format({ hour: "2-digit", minute: "2-digit", second: "2-digit" });
const MINUTE = format({ hour: "2-digit", minute: "2-digit" });
const DAY = format({ year: "numeric", month: "2-digit", day: "2-digit" });
const SHORT_DAY = new Intl.DateTimeFormat("en-GB", { timeZone: ZONE, day: "numeric", month: "short" });

export const clock = (at: number) => CLOCK.format(at * 1000);
export const minute = (at: number) => MINUTE.format(at * 1000);
export const shortDay = (at: number) => SHORT_DAY.format(at * 1000);

/** Date and time, for a title. */
export const moment = (at: number | null) =>
  at === null ? "" : `${DAY.format(at * 1000)} ${CLOCK.format(at * 1000)} ${ZONE}`;

/** The time of today, or the date and time of another day. */
export function stamp(at: number, now: number): string {
  const day = DAY.format(at * 1000);
  return day === DAY.format(now * 1000) ? clock(at) : `${day} ${clock(at)}`;
}

/** Seconds that the zone is ahead of UTC at a time. */
export function offset(at: number): number {
  const text = `${DAY.format(at * 1000)}T${CLOCK.format(at * 1000)}Z`;
  return Math.round(Date.parse(text) / 1000 - Math.floor(at));
}

export const sentence = (text: string) => (text === "" ? "" : text[0]!.toUpperCase() + text.slice(1));
export const spaced = (text: string) => text.replaceAll("_", " ").replaceAll("-", " ").toLowerCase();
