/** The streaming queries: state, batches, offsets, and what was wrong last. */
import { Card } from "./card";
import { ago, bytes, count, duration, many, moment, whole } from "./texts";
import { State } from "./tones";
import type { Batch, QueryDetail } from "./types";

const STRIP = 150;

/** The last batches side by side, as wide as they took. */
function Strip({ batches }: { batches: Batch[] }) {
  const total = batches.reduce((sum, each) => sum + (each.seconds ?? 0), 0);
  if (total === 0) return <span>-</span>;
  const room = STRIP - 3 * batches.length;
  const usual = [...batches].map((each) => each.seconds ?? 0).sort((a, b) => a - b)[batches.length >> 1]!;
  let left = 0;
  const words = batches.map((each) => `batch ${each.id}: ${duration(each.seconds)}, ${count(each.rows)} rows`);
  return (
    <svg width={STRIP} height={18} role="img" aria-label={`The last ${words.length} batches. ${words.join("; ")}`}>
      {batches.map((each, i) => {
        const wide = Math.max(1, ((each.seconds ?? 0) / total) * room);
        const x = left;
        left += wide + 3;
        // Three times as long as usual is worth a look.
        const long = (each.seconds ?? 0) > 3 * usual && usual > 0;
        return (
          <rect
            key={each.id}
            className={long ? "sp-batch sp-batch-long" : "sp-batch"}
            x={x}
            y={2}
            width={wide}
            height={14}
            rx={1.5}
          >
            <title>{`${words[i]}, ${moment(each.at)}`}</title>
          </rect>
        );
      })}
    </svg>
  );
}

export function Queries({ queries, now }: { queries: QueryDetail[]; now: number }) {
  return (
    <Card id="sp-queries" title="Queries">
      {queries.length === 0 ? (
        <p className="sp-mute">No query has reported.</p>
      ) : (
        <table className="sp-table sp-queries">
          <thead>
            <tr>
              <th scope="col">Query</th>
              <th scope="col">State</th>
              <th scope="col">Batch</th>
              <th scope="col">Batch time</th>
              <th scope="col">Last batches</th>
              <th scope="col">Rows</th>
              <th scope="col">State size</th>
              <th scope="col" title="From the last commit of the old holder to the first of the new one">
                Gap
              </th>
            </tr>
          </thead>
          <tbody>
            {queries.map((each) => (
              <QueryRows key={each.name} query={each} now={now} />
            ))}
          </tbody>
        </table>
      )}
    </Card>
  );
}

function QueryRows({ query, now }: { query: QueryDetail; now: number }) {
  const again = query.failures ? `, ${many(query.failures, "failure")}` : "";
  return (
    <>
      <tr className="sp-query">
        <th scope="row">{query.name}</th>
        <td>
          <State tone={query.tone}>{query.words}</State>
          {(query.seconds !== null || again) && (
            <div className="sp-small">
              {query.seconds === null ? "" : `for ${duration(query.seconds)}`}
              {again}
            </div>
          )}
        </td>
        <td>
          <span className="sp-num">{query.batch === null ? "-" : whole(query.batch)}</span>
          {query.committed_at !== null && (
            <div className="sp-small" title={moment(query.committed_at)}>
              committed {ago(query.committed_at, now)}
            </div>
          )}
        </td>
        <td className="sp-num">{duration(query.batch_seconds)}</td>
        <td>
          <Strip batches={query.batches} />
        </td>
        <td>
          <span className="sp-num">{count(query.rows)}</span>
          {query.rows_per_second !== null && <div className="sp-small">{count(query.rows_per_second)} per second</div>}
        </td>
        <td>
          <span className="sp-num">{bytes(query.state_bytes)}</span>
          {query.state_rows !== null && <div className="sp-small">{count(query.state_rows)} rows</div>}
        </td>
        <td className="sp-num">{duration(query.gap)}</td>
      </tr>
      <tr className="sp-query-more">
        <td colSpan={8}>
          <Errors query={query} />
          <details className="sp-details">
            <summary>Offsets, sink and checkpoint</summary>
            <dl className="sp-pairs">
              <dt>Sink</dt>
              <dd>{query.sink || "-"}</dd>
              <dt>Checkpoint</dt>
              <dd className="sp-mono">{query.checkpoint || "-"}</dd>
              {query.offsets.map((each) => (
                <div key={each.topic} className="sp-pair">
                  <dt>Topic {each.topic}</dt>
                  <dd>
                    {each.sum === null ? "offsets are not known" : `offsets add up to ${whole(each.sum)}`},{" "}
                    {many(each.partitions, "partition")}
                  </dd>
                </div>
              ))}
            </dl>
          </details>
        </td>
      </tr>
    </>
  );
}

function Errors({ query }: { query: QueryDetail }) {
  const well = query.tone === "good" || query.tone === "rest";
  return (
    <>
      {(query.error || query.cause) && (
        <div className={well ? "sp-error" : `sp-error sp-on-${query.tone}`}>
          <b>{well ? "Last error: " : "Error: "}</b>
          <span className="sp-lines">{query.error}</span>
          {query.cause && <div className="sp-lines">Cause: {query.cause}</div>}
        </div>
      )}
      {[query.reads, query.note]
        .filter((each) => each)
        .map((each) => (
          <p key={each} className="sp-small sp-lines">
            {each}
          </p>
        ))}
    </>
  );
}
