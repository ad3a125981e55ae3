/**
 * The two components that Airflow's UI looks for by the names of its react apps: `Streams`, a page of its own, and
 * `Stream`, a tab on each DAG, run and task. It evaluates this script once for both.
 */
import type { ComponentType } from "react";
import { useSearchParams } from "react-router-dom";

import { List } from "./list";
import { StreamPage } from "./stream";
import { STYLE } from "./style";
import { Story } from "./tab";

interface Place {
  dagId?: string;
  runId?: string;
  taskId?: string;
  mapIndex?: string;
}

// React puts it into the head once, however many of these are shown.
const Style = () => (
  <style href="streams-page" precedence="medium">
    {STYLE}
  </style>
);

function Streams() {
  const [params] = useSearchParams();
  const id = params.get("stream");
  return (
    <div className="sp sp-page">
      <Style />
      <div className="sp-in">{id ? <StreamPage key={id} id={id} /> : <List />}</div>
    </div>
  );
}

function Stream({ dagId, runId }: Place) {
  return (
    <div className="sp sp-tab">
      <Style />
      {dagId ? <Story dagId={dagId} runId={runId} /> : <p className="sp-mute">There is no DAG here.</p>}
    </div>
  );
}

Object.assign(globalThis, { Streams, Stream } satisfies Record<string, ComponentType<Place>>);
