/** What the server says: the answers of `streams/api/…`. Times are seconds since 1970; null: not known. */

export type Tone = "good" | "warn" | "bad" | "rest" | "unknown";

export interface Query {
  name: string;
  words: string;
  tone: Tone;
  error: string;
}

export interface Incident {
  kind: string;
  id: string;
  since: number;
}

export interface Row {
  /** Id of the stream's DAG NAME__operate: two streams may have one name. */
  id: string;
  name: string;
  words: string;
  tone: Tone;
  release: string;
  holder: string;
  since: number | null;
  sign_at: number | null;
  lag: { records: number | null; seconds: number | null; at: number } | null;
  /** Samples of the last hour, oldest first: at, seconds, records. */
  spark: [number, number | null, number | null][];
  queries: Query[];
  incidents: Incident[];
  upgrade: { at: number | null; words: string; version: string; gap: number | null; by: string } | null;
  wanted: string;
  problem: string;
  read_at: number | null;
}

export interface StreamsAnswer {
  /** Is sent back as it is; another process of the API server takes it for none, and sends all rows. */
  version: string;
  at: number;
  all: string[];
  streams: Row[];
}

export interface Driver {
  id: string;
  version: string;
  role: string;
  says: string;
  sign_at: number | null;
  ui: string;
  host: string;
}

export interface Batch {
  id: number;
  at: number;
  seconds: number | null;
  rows: number | null;
}

export interface QueryDetail extends Query {
  seconds: number | null;
  failures: number | null;
  cause: string;
  reads: string;
  note: string;
  batch: number | null;
  committed_at: number | null;
  batch_seconds: number | null;
  rows: number | null;
  rows_per_second: number | null;
  state_rows: number | null;
  state_bytes: number | null;
  gap: number | null;
  sink: string;
  checkpoint: string;
  batches: Batch[];
  offsets: { topic: string; partitions: number; sum: number | null }[];
}

export interface LifeEvent {
  seq: number;
  /** By its author's clock; null: of a record that broke a rule. */
  at: number | null;
  what: string;
  words: string;
  tone: Tone;
  version: string;
  driver: string;
  /** A task and a command have two lines. */
  by: string;
  reason: string;
  gap: number | null;
  free_seconds: number | null;
}

export interface Step {
  words: string;
  text: string;
  at: number | null;
  done: boolean;
}

export interface Release {
  hash: string;
  version: string;
  deployed_at: number | null;
  application: string;
  arguments: string[];
  conf: Record<string, string>;
  py_files: string[];
  environment: Record<string, string>;
  storage: string;
  holds: boolean;
  stands_by: boolean;
}

export interface Verb {
  verb: string;
  about: string;
  /** Names of the fields that it needs besides a reason. */
  asks: string[];
}

export interface StreamAnswer {
  at: number;
  row: Row;
  drivers: Driver[];
  queries: QueryDetail[];
  events: LifeEvent[];
  now: Step[];
  releases: Release[];
  dags: { operate: string; upgrade: string; watch: string[] };
  verbs: Verb[];
  problem: string;
}

export interface Sample {
  at: number;
  seconds: number | null;
  records: number | null;
  phase: string;
  batch_seconds: number | null;
  state_bytes: number | null;
}

export interface Mark {
  at: number;
  what: string;
  words: string;
  version: string;
  gap: number | null;
  tone: Tone;
}

export interface SeriesAnswer {
  from: number;
  to: number;
  samples: Sample[];
  bands: { from: number; to: number | null; version: string; driver: string }[];
  marks: Mark[];
  incidents: { kind: string; from: number; to: number | null }[];
}

export interface Forecast {
  word?: string;
  lines?: string[];
  tone?: Tone;
  /** Why it is not known. */
  problem?: string;
}

export interface StoryAnswer {
  stream: string | null;
  events: LifeEvent[];
  began: number | null;
  ended: number | null;
}
