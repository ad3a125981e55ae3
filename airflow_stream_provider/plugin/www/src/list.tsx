/** All streams, the worst first. */
import { useCallback, useDeferredValue, useEffect, useMemo, useRef, useState } from "react";
import { useSearchParams } from "react-router-dom";

import { read } from "./api";
import { useNow, usePolled } from "./poll";
import { StreamRow } from "./row";
import { Failure, NotReached } from "./states";
import { ago, duration, many, moment, whole } from "./texts";
import { Dot, TONES, TONE_WORDS, urgency } from "./tones";
import type { Row, StreamsAnswer, Tone } from "./types";

const EVERY = 2;

type Order = (a: Row, b: Row) => number;
const number = (value: number | null | undefined) => value ?? -Infinity;
const ill = (row: Row) => row.queries.filter((each) => each.tone !== "good" && each.tone !== "rest").length;
const byName: Order = (a, b) => a.name.localeCompare(b.name, "en", { numeric: true }) || a.id.localeCompare(b.id);
const worst: Order = (a, b) =>
  urgency(a) - urgency(b) ||
  b.incidents.length - a.incidents.length ||
  (urgency(a) < 4 ? number(b.lag?.seconds) - number(a.lag?.seconds) || 0 : 0);

/** The columns; what is most pressing comes first where a column is first pressed. */
const COLUMNS: { key: string; label: string; title?: string; order: Order; width: string; rises?: boolean }[] = [
  { key: "name", label: "Stream", order: byName, width: "15%", rises: true },
  { key: "state", label: "State", order: worst, width: "17%" },
  {
    key: "release",
    label: "Release",
    title: "The release that holds the stream: what runs now",
    order: (a, b) => b.release.localeCompare(a.release, "en", { numeric: true }),
    width: "8%",
  },
  {
    key: "since",
    label: "Held for",
    title: "How long this driver has held the stream",
    order: (a, b) => number(b.since) - number(a.since),
    width: "8%",
  },
  {
    key: "lag",
    label: "Lag",
    title: "What Kafka has and the stream has not committed: the age of the oldest record, and how many; the last hour",
    order: (a, b) => number(b.lag?.seconds) - number(a.lag?.seconds) || 0,
    width: "16%",
  },
  { key: "queries", label: "Queries", order: (a, b) => ill(b) - ill(a), width: "14%" },
  {
    key: "change",
    label: "Last change of holder",
    title: "The last upgrade, roll-back, start or stop",
    order: (a, b) => number(b.upgrade?.at) - number(a.upgrade?.at) || 0,
    width: "12%",
  },
  { key: "incidents", label: "Incidents", order: (a, b) => b.incidents.length - a.incidents.length, width: "10%" },
];

/** Reads the rows that have changed, and keeps the others. */
function useStreams() {
  const kept = useRef({ version: "", list: [] as Row[], rows: new Map<string, Row>() });
  const load = useCallback(async (signal: AbortSignal) => {
    let answer = await read<StreamsAnswer>("streams", { since: kept.current.version }, signal);
    if (answer.all.some((id) => !known(id))) answer = await read<StreamsAnswer>("streams", { since: "" }, signal);
    const before = kept.current;
    if (answer.streams.length === 0 && answer.all.length === before.list.length) return before.list;
    const changed = new Map(answer.streams.map((each) => [each.id, each]));
    const list = answer.all.flatMap((id) => changed.get(id) ?? before.rows.get(id) ?? []);
    kept.current = { version: answer.version, list, rows: new Map(list.map((each) => [each.id, each])) };
    return list;

    function known(id: string) {
      return kept.current.rows.has(id) || answer.streams.some((each) => each.id === id);
    }
  }, []);
  return usePolled(load, EVERY);
}

export function List() {
  const { data: rows, error, staleSince, again } = useStreams();
  if (rows === undefined)
    return error ? <Failure error={error} again={again} /> : <p className="sp-wait">Reading the streams…</p>;
  return (
    <>
      <NotReached since={staleSince} again={again} />
      <div className={staleSince ? "sp-stale" : undefined}>
        <Table rows={rows} />
      </div>
      <Spoken rows={rows} />
    </>
  );
}

function Table({ rows }: { rows: Row[] }) {
  const [params, setParams] = useSearchParams();
  const now = useNow(5);
  const [typed, setTyped] = useState(params.get("q") ?? "");
  const searched = useDeferredValue(typed.trim().toLowerCase());
  const tone = params.get("tone");
  const incidents = params.get("incidents") === "1";
  const [key, down] = [params.get("sort"), params.get("down") === "1"];

  const set = (changes: Record<string, string | null>) =>
    setParams(
      (before) => {
        const after = new URLSearchParams(before);
        for (const [name, value] of Object.entries(changes))
          if (value) after.set(name, value);
          else after.delete(name);
        return after;
      },
      { replace: true },
    );

  const shown = useMemo(() => {
    const column = COLUMNS.find((each) => each.key === key);
    const order = column?.order ?? worst;
    return rows
      .filter(
        (row) =>
          (tone === null || row.tone === tone) &&
          (!incidents || row.incidents.length > 0) &&
          (searched === "" || text(row).includes(searched)),
      )
      .sort((a, b) => (down ? order(b, a) : order(a, b)) || byName(a, b));
  }, [rows, tone, incidents, searched, key, down]);

  const press = (pressed: string) =>
    pressed !== key ? set({ sort: pressed, down: null }) : down ? set({ sort: null, down: null }) : set({ down: "1" });
  const clear = () => {
    setTyped("");
    set({ q: null, tone: null, incidents: null });
  };

  return (
    <>
      <header className="sp-head">
        <h1>Streams</h1>
        <p className="sp-lead">{summary(rows)}</p>
      </header>
      {rows.length === 0 ? (
        <div className="sp-empty">
          <p>There is no stream here that you may see.</p>
          <p className="sp-mute">
            A stream appears once its YAML is deployed and you may read its DAG <code>NAME__operate</code>.
          </p>
        </div>
      ) : (
        <>
          <div className="sp-tools" role="search">
            <input
              type="search"
              placeholder="Search: name, release, driver, query, incident"
              aria-label="Search streams"
              value={typed}
              onChange={(event) => {
                setTyped(event.target.value);
                set({ q: event.target.value });
              }}
            />
            <Filters rows={rows} tone={tone} incidents={incidents} set={set} />
            {shown.length !== rows.length && (
              <span className="sp-mute" role="status">
                {whole(shown.length)} of {whole(rows.length)} shown
              </span>
            )}
          </div>
          <table className="sp-table sp-list">
            <caption className="sp-hidden">Streams, {key ? "sorted" : "the worst first"}</caption>
            <colgroup>
              {COLUMNS.map((each) => (
                <col key={each.key} style={{ width: each.width }} />
              ))}
            </colgroup>
            <thead>
              <tr>
                {COLUMNS.map((each) => (
                  <th
                    key={each.key}
                    scope="col"
                    title={each.title}
                    aria-sort={key !== each.key ? "none" : down !== (each.rises ?? false) ? "ascending" : "descending"}
                  >
                    <button type="button" onClick={() => press(each.key)}>
                      {each.label}
                      <span aria-hidden="true" className="sp-arrow">
                        {key !== each.key ? "" : down !== (each.rises ?? false) ? "▲" : "▼"}
                      </span>
                    </button>
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {shown.map((row) => (
                <StreamRow
                  key={row.id}
                  row={row}
                  since={ago(row.since, now).replace(" ago", "")}
                  changed={row.upgrade ? ago(row.upgrade.at, now) : ""}
                  open={row.incidents.length > 0 ? open(row, now) : ""}
                />
              ))}
            </tbody>
          </table>
          {shown.length === 0 && (
            <div className="sp-empty">
              <p>No stream is like that.</p>
              <button type="button" className="sp-button" onClick={clear}>
                Show all {whole(rows.length)}
              </button>
            </div>
          )}
        </>
      )}
    </>
  );
}

const text = (row: Row) =>
  [row.name, row.id, row.release, row.holder, row.words]
    .concat(
      row.queries.map((each) => each.name),
      row.incidents.map((each) => each.kind),
    )
    .join(" ")
    .toLowerCase();

const open = (row: Row, now: number) => {
  const first = Math.min(...row.incidents.map((each) => each.since));
  return `for ${duration(Math.max(60, Math.floor((now - first) / 60) * 60))}`;
};

function summary(rows: Row[]): string {
  const bad = rows.filter((row) => urgency(row) < 2).sort(worst);
  const warned = rows.filter((row) => urgency(row) === 2).length;
  const total = many(rows.length, "stream");
  if (rows.length === 0) return "No streams.";
  if (bad.length > 0) {
    const named = bad.slice(0, 3).map((row) => row.name);
    const more = bad.length > 3 ? ` and ${whole(bad.length - 3)} more` : "";
    const need = bad.length === 1 ? "needs" : "need";
    return `${whole(bad.length)} of ${total} ${need} help now: ${named.join(", ")}${more}.`;
  }
  return warned > 0
    ? `${whole(warned)} of ${total} may need help soon.`
    : `${sentenceOf(rows.length)} as it should be.`;
}

const sentenceOf = (total: number) => (total === 1 ? "The stream is" : `Each of ${whole(total)} streams is`);

interface FilterProps {
  rows: Row[];
  tone: string | null;
  incidents: boolean;
  set: (changes: Record<string, string | null>) => void;
}

function Filters({ rows, tone, incidents, set }: FilterProps) {
  const counts = new Map<Tone, number>();
  for (const row of rows) counts.set(row.tone, (counts.get(row.tone) ?? 0) + 1);
  const open = rows.filter((row) => row.incidents.length > 0).length;
  return (
    <div className="sp-filters" role="group" aria-label="Filter">
      {TONES.filter((each) => counts.has(each) || tone === each).map((each) => (
        <button
          key={each}
          type="button"
          aria-pressed={tone === each}
          onClick={() => set({ tone: tone === each ? null : each })}
        >
          <Dot tone={each} />
          {TONE_WORDS[each]} <b>{whole(counts.get(each) ?? 0)}</b>
        </button>
      ))}
      <button type="button" aria-pressed={incidents} onClick={() => set({ incidents: incidents ? null : "1" })}>
        With incidents <b>{whole(open)}</b>
      </button>
    </div>
  );
}

/** Says to a screen reader which streams have changed their tone. */
function Spoken({ rows }: { rows: Row[] }) {
  const before = useRef<Map<string, Tone>>(undefined);
  const [said, setSaid] = useState("");
  useEffect(() => {
    const changed = rows.filter((row) => {
      const was = before.current?.get(row.id);
      return was !== undefined && was !== row.tone;
    });
    before.current = new Map(rows.map((row) => [row.id, row.tone]));
    if (changed.length > 0)
      setSaid(
        `${changed
          .slice(0, 3)
          .map((row) => `${row.name}: ${row.words}`)
          .join(". ")}. ${moment(Date.now() / 1000)}`,
      );
  }, [rows]);
  return (
    <div className="sp-hidden" aria-live="polite">
      {said}
    </div>
  );
}
