/** What has happened, as sentences. */
import type { ReactNode } from "react";
import { Link } from "react-router-dom";

import { Card } from "./card";
import { duration, sentence, stamp } from "./texts";
import { Dot, When } from "./tones";
import type { LifeEvent } from "./types";

/** Who wished it. A task is shown in Airflow. */
function Author({ by }: { by: string }) {
  const [, dag, task, run] = /^([\w.-]+)\/([\w.-]+)\n(.+)$/.exec(by) ?? [];
  if (!dag || !run) return <>{by.replace(/\s*\n\s*/g, ", ")}</>;
  const to = `/dags/${encodeURIComponent(dag)}/runs/${encodeURIComponent(run)}`;
  return (
    <>
      task {task} of{" "}
      <Link to={to} title={run}>
        {dag}
      </Link>
    </>
  );
}

interface EventProps {
  event: LifeEvent;
  now: number;
  /** Stands below its time. */
  later?: ReactNode;
}

/** One event: when, what, which release, who, how long the queries were down, and why. */
export function Event({ event, now, later }: EventProps) {
  return (
    <li>
      <span className="sp-small sp-at">
        <When at={event.at}>{event.at === null ? "-" : stamp(event.at, now)}</When>
        {later}
      </span>
      <Dot tone={event.tone} />
      <div>
        <b>{sentence(event.words)}</b>
        {event.version && `, release ${event.version}`}
        {event.by && (
          <>
            , by <Author by={event.by} />
          </>
        )}
        {event.gap !== null && (
          <span title="From the last commit of the old holder to the first of the new one">
            , gap {duration(event.gap)}
          </span>
        )}
        {event.free_seconds !== null && `, nobody held it for ${duration(event.free_seconds)}`}
        {"."}
        {event.reason && <div className="sp-reason sp-lines">{event.reason}</div>}
        {event.driver && <div className="sp-small sp-mono">{event.driver}</div>}
      </div>
    </li>
  );
}

export function History({ events, now }: { events: LifeEvent[]; now: number }) {
  return (
    <Card id="sp-history" title="History" beside={<span className="sp-small">the newest first</span>}>
      {events.length === 0 ? (
        <p className="sp-mute">Nothing has happened yet.</p>
      ) : (
        <ol className="sp-events" tabIndex={0} aria-labelledby="sp-history">
          {events.map((each) => (
            <Event key={each.seq} event={each} now={now} />
          ))}
        </ol>
      )}
    </Card>
  );
}
