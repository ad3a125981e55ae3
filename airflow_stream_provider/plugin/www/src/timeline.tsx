/** What happened over time: releases, hand-overs and incidents above lag, batches and state. */
import { useCallback, useState } from "react";

import { read } from "./api";
import { Card } from "./card";
import { Chart, type Panel } from "./chart";
import { usePolled } from "./poll";
import { Waits } from "./states";
import { bytes, count, duration, moment, spaced, stamp } from "./texts";
import type { Sample, SeriesAnswer } from "./types";

const RANGES: [number, string][] = [
  [600, "10 min"],
  [3600, "1 h"],
  [21_600, "6 h"],
  [86_400, "1 d"],
  [604_800, "7 d"],
  [0, "all"],
];

const LAG: Record<"seconds" | "records", Panel> = {
  seconds: { title: "Lag", value: (each) => each.seconds, say: duration, seconds: true },
  records: { title: "Lag, records", value: (each) => each.records, say: count },
};
const OTHERS: Panel[] = [
  { title: "Batch duration", value: (each) => each.batch_seconds, say: duration, seconds: true },
  { title: "State size", value: (each) => each.state_bytes, say: bytes },
];

export function Timeline({ id }: { id: string }) {
  const [seconds, setSeconds] = useState(3600);
  const [unit, setUnit] = useState<"seconds" | "records">("seconds");
  const load = useCallback(
    (signal: AbortSignal) => read<SeriesAnswer>("series", { dag_id: id, seconds }, signal),
    [id, seconds],
  );
  // A week does not look different after seconds.
  const { data, error } = usePolled(load, seconds > 0 && seconds <= 3600 ? 5 : 30);
  const panels = [LAG[unit], ...OTHERS].filter(
    (panel, i) => i === 0 || data?.samples.some((each) => panel.value(each) !== null),
  );

  return (
    <Card
      id="sp-timeline"
      title="Timeline"
      beside={
        <div className="sp-switches">
          <Switch
            label="Unit of lag"
            value={unit}
            set={setUnit}
            options={[
              ["seconds", "seconds"],
              ["records", "records"],
            ]}
          />
          <Switch label="Range" value={seconds} set={setSeconds} options={RANGES} />
        </div>
      }
    >
      {data ? (
        <>
          <Chart data={data} panels={panels} />
          <AsTable data={data} />
        </>
      ) : error ? (
        <p className="sp-mute">The timeline is not known: {error.message}</p>
      ) : (
        <div className="sp-chart-wait">
          <Waits>Reading the timeline…</Waits>
        </div>
      )}
    </Card>
  );
}

interface SwitchProps<T> {
  label: string;
  value: T;
  set: (value: T) => void;
  options: [T, string][];
}

function Switch<T extends string | number>({ label, value, set, options }: SwitchProps<T>) {
  return (
    <div className="sp-switch" role="group" aria-label={label}>
      {options.map(([each, words]) => (
        <button key={each} type="button" aria-pressed={each === value} onClick={() => set(each)}>
          {words}
        </button>
      ))}
    </div>
  );
}

const MOST = 60;

/** Return at most MOST samples, evenly. */
function thinned(samples: Sample[]): Sample[] {
  const step = Math.max(1, samples.length / MOST);
  return Array.from({ length: Math.min(MOST, samples.length) }, (_, i) => samples[Math.floor(i * step)]!).reverse();
}

/** The same as text, for who does not see it. */
function AsTable({ data }: { data: SeriesAnswer }) {
  const [open, setOpen] = useState(false);
  const events = [
    ...data.marks.map((each) => ({
      at: each.at,
      text: `${each.words}${each.version && `, release ${each.version}`}${each.gap === null ? "" : `, gap ${duration(each.gap)}`}`,
    })),
    ...data.incidents.map((each) => ({
      at: each.from,
      text: `incident: ${spaced(each.kind)}${each.to === null ? ", open" : `, for ${duration(each.to - each.from)}`}`,
    })),
  ].sort((a, b) => b.at - a.at);
  return (
    <details className="sp-details" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>As a table</summary>
      {open && (
        <div className="sp-scroll" tabIndex={0} role="region" aria-label="Timeline as a table">
          <table className="sp-table">
            <caption className="sp-hidden">Hand-overs, stops and incidents, the newest first</caption>
            <thead>
              <tr>
                <th scope="col">At</th>
                <th scope="col">What</th>
              </tr>
            </thead>
            <tbody>
              {events.map((each, i) => (
                <tr key={i}>
                  <td title={moment(each.at)}>{stamp(each.at, data.to)}</td>
                  <td>{each.text}</td>
                </tr>
              ))}
              {events.length === 0 && (
                <tr>
                  <td colSpan={2}>Nothing happened in this time.</td>
                </tr>
              )}
            </tbody>
          </table>
          <table className="sp-table">
            <caption className="sp-hidden">Samples, the newest first</caption>
            <thead>
              <tr>
                {["At", "Lag", "Lag, records", "Batch duration", "State size", "State"].map((each) => (
                  <th key={each} scope="col">
                    {each}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {thinned(data.samples).map((each) => (
                <tr key={each.at}>
                  <td title={moment(each.at)}>{stamp(each.at, data.to)}</td>
                  <td>{duration(each.seconds)}</td>
                  <td>{count(each.records)}</td>
                  <td>{duration(each.batch_seconds)}</td>
                  <td>{bytes(each.state_bytes)}</td>
                  <td>{spaced(each.phase)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </details>
  );
}
