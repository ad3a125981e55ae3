/** One stream in the list. There may be a thousand: plain cells, drawn anew only when something in them has changed. */
import { memo } from "react";
import { Link } from "react-router-dom";

import { count, duration, moment, spaced, whole } from "./texts";
import { Dot, State, When } from "./tones";
import type { Query, Row } from "./types";

const WIDTH = 88;
const HEIGHT = 22;
const HOUR = 3600;
// A pause of the watch is no line.
const PAUSE = 300;

export function Spark({ points }: { points: Row["spark"] }) {
  const known = points.filter((each) => each[1] !== null) as [number, number, number | null][];
  const last = known.at(-1);
  if (last === undefined || known.length < 2) return null;
  const top = Math.max(1, ...known.map((each) => each[1]));
  const x = (at: number) => ((WIDTH - 4) * (1 - (last[0] - at) / HOUR)).toFixed(1);
  const y = (seconds: number) => (HEIGHT - 2 - (seconds / top) * (HEIGHT - 4)).toFixed(1);
  const path = known
    .map(([at, seconds], i) => `${i && at - known[i - 1]![0] <= PAUSE ? "L" : "M"}${x(at)} ${y(seconds)}`)
    .join("");
  return (
    <svg className="sp-spark" width={WIDTH} height={HEIGHT} aria-hidden="true">
      <path d={path} />
      <circle cx={x(last[0])} cy={y(last[1])} r="2" />
    </svg>
  );
}

/** Names the queries that are not well, and counts the others. */
export function Chips({ queries }: { queries: Query[] }) {
  const ill = queries.filter((each) => each.tone !== "good" && each.tone !== "rest");
  const others = queries.filter((each) => !ill.includes(each));
  const words = new Set(others.map((each) => each.words));
  const said = words.size === 1 ? [...words][0]! : "well";
  return (
    <span className="sp-chips">
      {ill.slice(0, 3).map((each) => (
        <span key={each.name} className={`sp-chip sp-on-${each.tone}`} title={each.error || undefined}>
          <Dot tone={each.tone} />
          {each.name}: {each.words}
        </span>
      ))}
      {ill.length > 3 && <span className="sp-mute">{whole(ill.length - 3)} more not well</span>}
      {others.length > 0 && (
        <span className="sp-mute" title={others.map((each) => `${each.name}: ${each.words}`).join("\n")}>
          {ill.length > 0 ? "others: " : ""}
          {whole(others.length)} {said}
        </span>
      )}
    </span>
  );
}

/** What is wished for where it is not so: a sentence of the server for each wish says whether it is. */
export const unmet = (wanted: string) =>
  (wanted.match(/.+?, and it is (?:so|not so yet)\.(?: |$)/g) ?? [])
    .filter((each) => each.includes("it is not so yet"))
    .join("")
    .trim();

interface Props {
  row: Row;
  /** Lengths of time up to now, as texts: so a row is drawn anew only when one of them reads differently. */
  since: string;
  changed: string;
  open: string;
}

export const StreamRow = memo(function StreamRow({ row, since, changed, open }: Props) {
  const wanted = unmet(row.wanted);
  return (
    <tr className={row.tone === "bad" ? "sp-row-bad" : undefined}>
      <th scope="row">
        <Link className="sp-name" to={{ search: `?stream=${encodeURIComponent(row.id)}` }}>
          {row.name}
        </Link>
        {row.id !== `${row.name}__operate` && <div className="sp-small">{row.id}</div>}
      </th>
      <td>
        <State tone={row.tone}>{row.words}</State>
        {row.problem && (
          <div className="sp-small sp-clamp" title={row.problem}>
            {row.problem}
          </div>
        )}
        {wanted && (
          <div className="sp-small sp-clamp" title={wanted}>
            Not so yet: {wanted.split(", by ")[0]}
          </div>
        )}
      </td>
      <td>
        {row.release ? <span title={row.holder && `Driver ${row.holder} holds the stream.`}>{row.release}</span> : "-"}
      </td>
      <td>
        <When at={row.since}>{since}</When>
      </td>
      <td className="sp-lag">
        {row.lag ? (
          <span title={`Read ${moment(row.lag.at)}`}>
            <span className="sp-num">{duration(row.lag.seconds)}</span>
            <span className="sp-small">{row.lag.records === null ? "" : `${count(row.lag.records)} records`}</span>
          </span>
        ) : (
          <span>-</span>
        )}
        <Spark points={row.spark} />
      </td>
      <td>{row.queries.length > 0 ? <Chips queries={row.queries} /> : "-"}</td>
      <td>
        {row.upgrade ? (
          <>
            <span title={row.upgrade.by && `By ${row.upgrade.by}`}>
              {row.upgrade.words}
              {row.upgrade.version && ` to ${row.upgrade.version}`}
            </span>
            <div className="sp-small">
              <When at={row.upgrade.at}>{changed}</When>
              {row.upgrade.gap !== null && (
                <span title="Gap: from the last commit of the old holder to the first of the new one">
                  , gap {duration(row.upgrade.gap)}
                </span>
              )}
            </div>
          </>
        ) : (
          "-"
        )}
      </td>
      <td>
        {row.incidents.length > 0 ? (
          <span className="sp-chips" title={open}>
            {row.incidents.map((each) => (
              <span key={each.id} className="sp-chip sp-on-bad">
                <Dot tone="bad" />
                {spaced(each.kind)}
              </span>
            ))}
            <span className="sp-small">{open}</span>
          </span>
        ) : (
          <span className="sp-mute">none</span>
        )}
      </td>
    </tr>
  );
});
