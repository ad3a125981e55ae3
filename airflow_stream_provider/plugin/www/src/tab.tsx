/** The tab on a DAG, a run and a task: the story of one upgrade, from its beginning to its end. */
import { useCallback } from "react";
import { Link } from "react-router-dom";

import { read } from "./api";
import { Event } from "./history";
import { useNow, usePolled } from "./poll";
import { Failure, NotReached, Waits } from "./states";
import { clock, duration, stamp } from "./texts";
import type { StoryAnswer } from "./types";

const EVERY = 5;

export function Story({ dagId, runId }: { dagId: string; runId: string | undefined }) {
  const load = useCallback(
    (signal: AbortSignal) => read<StoryAnswer>("story", { dag_id: dagId, ...(runId && { run_id: runId }) }, signal),
    [dagId, runId],
  );
  const { data, error, staleSince, again } = usePolled(load, EVERY);
  const now = useNow(1);

  if (data === undefined) return error ? <Failure error={error} again={again} /> : <Waits>Reading the story…</Waits>;
  if (data.stream === null) return <p className="sp-mute">This DAG is of no stream, or of one that you may not see.</p>;
  const { events, began, ended } = data;
  return (
    <>
      <NotReached since={staleSince} again={again} />
      <div className={staleSince ? "sp-stale" : undefined}>
        <header className="sp-head">
          <h2 className="sp-title">{runId ? "What this run did to the stream" : "What happened to the stream"}</h2>
          <p className="sp-lead">
            {began === null
              ? "It has not begun. "
              : ended === null
                ? `It began at ${stamp(began, now)} and goes on for ${duration(Math.max(0, now - began))}. `
                : `It began at ${stamp(began, now)}, ended at ${clock(ended)} and took ${duration(ended - began)}. `}
            <Link to={`/plugin/streams?stream=${encodeURIComponent(data.stream)}`}>Go to the stream</Link>
          </p>
        </header>
        {events.length === 0 ? (
          <p className="sp-mute">Nothing has happened to the stream in it.</p>
        ) : (
          <ol className="sp-events sp-story">
            {events.map((each, i) => {
              const before = events[i - 1]?.at ?? null;
              return (
                <Event
                  key={each.seq}
                  event={each}
                  now={now}
                  later={
                    each.at !== null &&
                    before !== null && <span className="sp-later">{duration(Math.max(0, each.at - before))} later</span>
                  }
                />
              );
            })}
          </ol>
        )}
      </div>
    </>
  );
}
