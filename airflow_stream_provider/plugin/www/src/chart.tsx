/** Panels one below the other over one axis of time. A line under the pointer, or moved by keys, reads all of them. */
import { useEffect, useMemo, useRef, useState, type KeyboardEvent, type PointerEvent } from "react";

import { roundTop, timeTicks } from "./axis";
import { duration, spaced, stamp } from "./texts";
import type { Mark, Sample, SeriesAnswer } from "./types";

export interface Panel {
  title: string;
  value: (sample: Sample) => number | null;
  say: (value: number | null) => string;
  /** Whether the values are lengths of time. */
  seconds?: boolean;
}

const LEFT = 58;
const RIGHT = 14;
const BAND = 20;
const MARKS = 22;
const INCIDENT = 16;
const PANEL = 74;
const BETWEEN = 26;
const AXIS = 22;
const HUES = ["blue", "teal", "purple", "cyan", "pink"];

function useWidth() {
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(900);
  useEffect(() => {
    const watch = new ResizeObserver(
      ([entry]) => entry && setWidth(Math.max(320, Math.floor(entry.contentRect.width))),
    );
    if (box.current) watch.observe(box.current);
    return () => watch.disconnect();
  }, []);
  return [box, width] as const;
}

export function Chart({ data, panels }: { data: SeriesAnswer; panels: Panel[] }) {
  const [box, width] = useWidth();
  const [chosen, setChosen] = useState<number | null>(null);
  const { samples, from, to } = data;
  const inner = width - LEFT - RIGHT;
  const x = (at: number) => LEFT + (inner * (Math.min(Math.max(at, from), to) - from)) / Math.max(1, to - from);

  const kinds = [...new Set(data.incidents.map((each) => each.kind))];
  const top = BAND + MARKS + kinds.length * INCIDENT + (kinds.length && 6);
  const height = top + panels.length * (PANEL + BETWEEN) + AXIS;

  // Of the last sample where none is chosen, so that the line above the panels is never empty.
  const index = chosen === null ? samples.length - 1 : nearest(samples, chosen);
  const sample = samples[index];
  const readout = sample ? say(sample, data, panels, ((to - from) / inner) * 6) : "Nothing was measured in this time.";

  const point = (event: PointerEvent) => {
    const at = from + ((event.clientX - event.currentTarget.getBoundingClientRect().left - LEFT) / inner) * (to - from);
    setChosen(Math.min(Math.max(at, from), to));
  };
  const press = (event: KeyboardEvent) => {
    const last = samples.length - 1;
    const steps: Record<string, number> = {
      ArrowLeft: -1,
      ArrowRight: 1,
      PageUp: -10,
      PageDown: 10,
      Home: -last,
      End: last,
    };
    const step = steps[event.key];
    const next = samples[Math.min(Math.max(index + (step ?? 0), 0), last)];
    if (event.key === "Escape") setChosen(null);
    else if (step === undefined || next === undefined) return;
    else setChosen(next.at);
    event.preventDefault();
  };

  return (
    <>
      <p className="sp-readout">
        {chosen === null && sample && <span className="sp-mute">Last: </span>}
        {readout}
      </p>
      <div
        ref={box}
        className="sp-chart"
        role="slider"
        tabIndex={0}
        aria-label="Moment of the timeline: arrow keys move it"
        aria-valuemin={0}
        aria-valuemax={Math.max(0, samples.length - 1)}
        aria-valuenow={Math.max(0, index)}
        aria-valuetext={readout}
        onPointerMove={point}
        onPointerLeave={() => setChosen(null)}
        onKeyDown={press}
        onBlur={() => setChosen(null)}
      >
        <svg width={width} height={height} aria-hidden="true">
          <Times from={from} to={to} x={x} width={inner} height={height} />
          <Bands data={data} x={x} />
          {data.incidents.map((each, i) => {
            const wide = Math.max(3, x(each.to ?? to) - x(each.from));
            const y = BAND + MARKS + kinds.indexOf(each.kind) * INCIDENT;
            return (
              <g key={i}>
                <rect
                  className="sp-incident-shade"
                  x={x(each.from)}
                  y={top}
                  width={wide}
                  height={height - AXIS - top}
                />
                <rect className="sp-incident" x={x(each.from)} y={y + 3} width={wide} height={10} rx="2" />
              </g>
            );
          })}
          {kinds.map((kind, i) => (
            <text
              key={kind}
              className="sp-incident-name"
              x={LEFT - 6}
              y={BAND + MARKS + i * INCIDENT + 12}
              textAnchor="end"
            >
              {spaced(kind).slice(0, 9)}
            </text>
          ))}
          <Marks marks={data.marks} x={x} height={height} />
          {panels.map((panel, i) => (
            <Line
              key={panel.title}
              panel={panel}
              samples={samples}
              x={x}
              y={top + i * (PANEL + BETWEEN) + BETWEEN}
              width={inner}
            />
          ))}
          {chosen !== null && sample && (
            <g className="sp-cursor">
              <line x1={x(sample.at)} x2={x(sample.at)} y1={BAND} y2={height - AXIS} />
            </g>
          )}
        </svg>
      </div>
    </>
  );
}

/** Return the index of the sample nearest to a time; -1: there is none. */
function nearest(samples: Sample[], at: number): number {
  let [low, high] = [0, samples.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (samples[middle]!.at < at) low = middle + 1;
    else high = middle;
  }
  const before = samples[low - 1];
  return before && at - before.at < samples[low]!.at - at ? low - 1 : high < 0 ? -1 : low;
}

function say(sample: Sample, data: SeriesAnswer, panels: Panel[], near: number): string {
  const within = (from: number, to: number | null) => from <= sample.at && sample.at <= (to ?? Infinity);
  const release = data.bands.find((each) => within(each.from, each.to))?.version;
  const marks = data.marks.filter((each) => Math.abs(each.at - sample.at) <= near);
  return [
    stamp(sample.at, data.to),
    ...panels.map((panel) => `${panel.title.toLowerCase()} ${panel.say(panel.value(sample))}`),
    ...(release ? [`release ${release}`] : ["nobody holds the stream"]),
    ...marks.map((each) => `${each.words}${each.gap === null ? "" : `, gap ${duration(each.gap)}`}`),
    ...data.incidents.filter((each) => within(each.from, each.to)).map((each) => `incident: ${spaced(each.kind)}`),
  ].join(" · ");
}

type Scale = (at: number) => number;

function Times(props: { from: number; to: number; x: Scale; width: number; height: number }) {
  const { from, to, x, width, height } = props;
  return timeTicks(from, to, Math.max(2, Math.floor(width / 90))).map(({ at, label }) => (
    <g key={at} className="sp-time">
      <line x1={x(at)} x2={x(at)} y1={BAND + 2} y2={height - AXIS} />
      <text x={x(at)} y={height - 6} textAnchor="middle">
        {label}
      </text>
    </g>
  ));
}

function Bands({ data, x }: { data: SeriesAnswer; x: Scale }) {
  const versions = [...new Set(data.bands.map((each) => each.version))];
  return (
    <>
      <text className="sp-lane" x={LEFT - 6} y={14} textAnchor="end">
        release
      </text>
      {data.bands.map((each, i) => {
        const [left, right] = [x(each.from), x(each.to ?? data.to)];
        const hue = HUES[versions.indexOf(each.version) % HUES.length]!;
        const room = Math.floor((right - left - 10) / 6.6);
        return (
          <g key={i}>
            <rect
              x={left}
              y={0.5}
              width={Math.max(1, right - left - 1)}
              height={BAND - 1}
              rx="3"
              fill={`var(--chakra-colors-${hue}-subtle)`}
              stroke={`var(--chakra-colors-${hue}-emphasized)`}
            />
            {room >= each.version.length && (
              <text x={left + 6} y={14} fill={`var(--chakra-colors-${hue}-fg)`} className="sp-band">
                {each.version}
              </text>
            )}
          </g>
        );
      })}
    </>
  );
}

function Marks({ marks, x, height }: { marks: Mark[]; x: Scale; height: number }) {
  // The newest gaps are written where there is room for them.
  let free = Infinity;
  return (
    <g>
      {[...marks].reverse().map((each, i) => {
        const left = x(each.at);
        const label = each.gap === null ? "" : duration(each.gap);
        const written = label !== "" && left + 10 + label.length * 6.5 < free;
        if (written) free = left - 8;
        return (
          <g key={i} className={`sp-mark sp-${each.tone}`}>
            <line x1={left} x2={left} y1={BAND} y2={height - AXIS} />
            <path d={`M${left} ${BAND + 4}l5 6-5 6-5-6Z`} />
            {written && (
              <text x={left + 9} y={BAND + 14}>
                {label}
              </text>
            )}
          </g>
        );
      })}
    </g>
  );
}

function Line(props: { panel: Panel; samples: Sample[]; x: Scale; y: number; width: number }) {
  const { panel, samples, x, y, width } = props;
  const known = useMemo(() => samples.filter((each) => panel.value(each) !== null), [samples, panel]);
  const top = roundTop(Math.max(0, ...known.map((each) => panel.value(each)!)), panel.seconds ?? false);
  const scale = (each: Sample) => y + PANEL - (panel.value(each)! / top) * PANEL;
  const runs = useMemo(() => withoutPauses(known), [known]);
  return (
    <g className="sp-panel">
      <text className="sp-panel-title" x={LEFT} y={y - 8}>
        {panel.title}
      </text>
      {[0, 0.5, 1].map((part) => (
        <g key={part}>
          <line x1={LEFT} x2={LEFT + width} y1={y + PANEL * (1 - part)} y2={y + PANEL * (1 - part)} />
          <text x={LEFT - 6} y={y + PANEL * (1 - part) + 4} textAnchor="end">
            {part === 0 ? "0" : panel.say(top * part)}
          </text>
        </g>
      ))}
      {runs.map((run) => {
        const path = run
          .map((each, i) => `${i ? "L" : "M"}${x(each.at).toFixed(1)} ${scale(each).toFixed(1)}`)
          .join("");
        const [first, last] = [x(run[0]!.at).toFixed(1), x(run.at(-1)!.at).toFixed(1)];
        return (
          <g key={run[0]!.at}>
            <path className="sp-area" d={`${path}L${last} ${y + PANEL}L${first} ${y + PANEL}Z`} />
            <path className="sp-line" d={run.length > 1 ? path : `${path}h1`} />
          </g>
        );
      })}
      {known.length === 0 && (
        <text x={LEFT + 8} y={y + PANEL / 2 + 4}>
          not measured in this time
        </text>
      )}
    </g>
  );
}

/** Cut where much longer than usual nothing was measured: a line would say that something was. */
function withoutPauses(samples: Sample[]): Sample[][] {
  const steps = samples.slice(1).map((each, i) => each.at - samples[i]!.at);
  const usual = [...steps].sort((a, b) => a - b)[steps.length >> 1] ?? 0;
  const runs: Sample[][] = [];
  samples.forEach((each, i) => {
    if (i > 0 && steps[i - 1]! <= Math.max(usual * 4, 60)) runs.at(-1)!.push(each);
    else runs.push([each]);
  });
  return runs;
}
