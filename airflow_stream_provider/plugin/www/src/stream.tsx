/** One stream: what is now, what may be done, what happened. The first screen answers what is asked at night. */
import { useCallback, useEffect } from "react";
import { Link } from "react-router-dom";

import { Acts } from "./acts";
import { read } from "./api";
import { RollBack } from "./forecast";
import { History } from "./history";
import { Drivers, Now } from "./people";
import { useNow, usePolled } from "./poll";
import { Queries } from "./queries";
import { Releases } from "./releases";
import { unmet } from "./row";
import { Failure, NotReached } from "./states";
import { ago, count, duration, moment, spaced } from "./texts";
import { Timeline } from "./timeline";
import { Dot, State, When } from "./tones";
import type { Row, StreamAnswer } from "./types";

const EVERY = 2;

export function StreamPage({ id }: { id: string }) {
  const load = useCallback((signal: AbortSignal) => read<StreamAnswer>("stream", { dag_id: id }, signal), [id]);
  const { data, error, staleSince, again } = usePolled(load, EVERY);
  const now = useNow(1);
  const row = data?.row;
  const title = row && `${row.name}: ${row.words}`;
  useEffect(() => {
    const before = document.title;
    if (title) document.title = title;
    return () => {
      document.title = before;
    };
  }, [title]);

  if (data === undefined || row === undefined)
    return (
      <>
        <Crumbs />
        {error ? <Failure error={error} again={again} /> : <p className="sp-wait">Reading the stream…</p>}
      </>
    );
  // That of the row is rounded.
  const sign = data.drivers.find((each) => each.id === row.holder)?.sign_at ?? row.sign_at;
  return (
    <>
      <Crumbs name={row.name} />
      <NotReached since={staleSince} again={again} />
      <div className={staleSince ? "sp-stale" : undefined}>
        <header className="sp-head sp-head-stream">
          <div>
            <h1>{row.name}</h1>
            <div className="sp-says" aria-live="polite" aria-atomic="true">
              <State tone={row.tone}>{row.words}</State>
            </div>
          </div>
          <Acts answer={data} />
        </header>
        <Problems row={row} more={data.problem} now={now} />
        <Facts row={row} sign={sign} now={now} />
        <div className="sp-two">
          <Now steps={data.now} />
          {/* Asked again when another driver holds, or the stream is well or ill now. */}
          <RollBack key={`${row.holder}|${row.tone}|${data.problem}`} id={id} />
        </div>
        <Timeline id={id} />
        <Queries queries={data.queries} now={now} />
        <Drivers drivers={data.drivers} now={now} />
        <History events={data.events} now={now} />
        <Releases releases={data.releases} now={now} />
        <Dags dags={data.dags} />
      </div>
    </>
  );
}

function Crumbs({ name }: { name?: string }) {
  return (
    <nav aria-label="Breadcrumb" className="sp-crumbs">
      <Link to={{ search: "" }}>Streams</Link>
      {name && <span aria-hidden="true"> / </span>}
      {name && <span aria-current="page">{name}</span>}
    </nav>
  );
}

/** Incidents, problems and a wish that is not so yet. */
function Problems({ row, more, now }: { row: Row; more: string; now: number }) {
  const texts = [...new Set([row.problem, more])].filter((each) => each !== "");
  const wanted = unmet(row.wanted);
  return (
    <>
      {row.incidents.map((each) => (
        <p key={each.id} className="sp-notice sp-on-bad">
          <Dot tone="bad" /> <b>Incident: {spaced(each.kind)}</b>, open for{" "}
          <When at={each.since}>{duration(Math.max(0, now - each.since))}</When>
        </p>
      ))}
      {texts.map((each) => (
        <p key={each} className={`sp-notice sp-on-${row.tone === "bad" ? "bad" : "warn"} sp-lines`}>
          <Dot tone={row.tone === "bad" ? "bad" : "warn"} /> {each}
        </p>
      ))}
      {wanted && (
        <p className="sp-notice sp-on-warn">
          <Dot tone="warn" /> {wanted}
        </p>
      )}
    </>
  );
}

function Facts({ row, sign, now }: { row: Row; sign: number | null; now: number }) {
  const lag = row.lag;
  return (
    <dl className="sp-facts">
      <Fact term="Release" title="An immutable description of what runs: script, arguments, conf">
        {row.release || "none"}
      </Fact>
      <Fact term="Held for" title={moment(row.since)}>
        <When at={row.since}>{row.since === null ? "-" : duration(Math.max(0, now - row.since))}</When>
      </Fact>
      <Fact
        term="Lag"
        title={lag ? `Read ${moment(lag.at)}` : ""}
        more={lag ? `${count(lag.records)} records, read ${ago(lag.at, now)}` : ""}
      >
        {lag ? duration(lag.seconds) : "not known"}
      </Fact>
      <Fact
        term="Last change of holder"
        title={moment(row.upgrade?.at ?? null)}
        more={
          row.upgrade
            ? `${ago(row.upgrade.at, now)}${row.upgrade.by && ` by ${row.upgrade.by.replace("\n", ", ")}`}`
            : ""
        }
      >
        {row.upgrade ? (row.upgrade.gap === null ? row.upgrade.words : `gap ${duration(row.upgrade.gap)}`) : "none yet"}
      </Fact>
      <Fact
        term="Holder"
        title="The one driver that may run the queries now"
        more={sign === null ? "" : `last sign of life ${ago(sign, now)}`}
      >
        <span className="sp-mono">{row.holder || "nobody"}</span>
      </Fact>
    </dl>
  );
}

function Fact(props: { term: string; title?: string; more?: string; children: React.ReactNode }) {
  return (
    <div title={props.title || undefined}>
      <dt>{props.term}</dt>
      <dd>
        <span className="sp-fact">{props.children}</span>
        {props.more && <span className="sp-small">{props.more}</span>}
      </dd>
    </div>
  );
}

function Dags({ dags }: { dags: StreamAnswer["dags"] }) {
  const ids = [dags.operate, dags.upgrade, ...dags.watch].filter((each) => each);
  return (
    <p className="sp-dags">
      DAGs of this stream:{" "}
      {ids.map((each, i) => (
        <span key={each}>
          {i > 0 && ", "}
          <Link to={`/dags/${encodeURIComponent(each)}`}>{each}</Link>
        </span>
      ))}
    </p>
  );
}
