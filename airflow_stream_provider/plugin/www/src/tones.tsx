/** The tone of a state: a colour and a shape, always beside words. */
import type { ReactNode } from "react";

import { moment } from "./texts";
import type { Row, Tone } from "./types";

export const TONES: Tone[] = ["bad", "warn", "unknown", "good", "rest"];

export const TONE_WORDS: Record<Tone, string> = {
  bad: "Bad",
  warn: "Warning",
  unknown: "Unknown",
  good: "Good",
  rest: "At rest",
};

// Who does not see red and green sees a diamond and a disc.
const SHAPES: Record<Tone, ReactNode> = {
  good: <circle cx="6" cy="6" r="5" />,
  warn: <path d="M6 .8 11.6 11H.4Z" />,
  bad: <path d="M6 0 12 6 6 12 0 6Z" />,
  rest: <path d="M2 1h3v10H2zM7 1h3v10H7z" />,
  unknown: <circle cx="6" cy="6" r="4" fill="none" stroke="currentColor" strokeWidth="2" />,
};

export function Dot({ tone }: { tone: Tone }) {
  return (
    <svg className={`sp-dot sp-${tone}`} viewBox="0 0 12 12" aria-hidden="true">
      {SHAPES[tone]}
    </svg>
  );
}

export function State({ tone, children }: { tone: Tone; children: ReactNode }) {
  return (
    <span className="sp-state">
      <Dot tone={tone} />
      <span className={tone === "bad" ? "sp-bad sp-strong" : undefined}>{children}</span>
    </span>
  );
}

export function When({ at, children }: { at: number | null; children: ReactNode }) {
  if (at === null) return <>{children}</>;
  return (
    <time dateTime={new Date(at * 1000).toISOString()} title={moment(at)}>
      {children}
    </time>
  );
}

/** Who needs a person first: bad, unknown with a problem, warning, unknown, good, at rest. */
export function urgency(row: Row): number {
  if (row.tone === "bad") return 0;
  if (row.tone === "unknown") return row.problem ? 1 : 3;
  return row.tone === "warn" ? 2 : row.tone === "good" ? 4 : 5;
}

/** A link that leaves Airflow; as text where its address is no web address. */
export function Away({ to, children }: { to: string; children: ReactNode }) {
  if (!/^https?:\/\//i.test(to)) return <>{children}</>;
  return (
    <a href={to} target="_blank" rel="noopener noreferrer">
      {children}
      <span aria-hidden="true"> ↗</span>
    </a>
  );
}
