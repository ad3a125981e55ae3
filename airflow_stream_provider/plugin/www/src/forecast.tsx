/** What would happen now, as the server works it out; and the question of the night: can I roll back? */
import { useCallback, useEffect, useRef, useState } from "react";

import { Refused, read } from "./api";
import { Card } from "./card";
import { Waits } from "./states";
import { clock, moment } from "./texts";
import { Dot } from "./tones";
import type { Forecast } from "./types";

/** Milliseconds after which an answer that is not known is asked for again. */
const UNKNOWN_AGAIN = 10_000;

export interface Foreseen {
  found: Forecast | undefined;
  at: number | undefined;
  asking: boolean;
  ask: () => void;
}

/**
 * Ask when the question changes, and on demand: each answer reads Kafka and checkpoints, so nothing polls it.
 *
 * @param fields what is filled in; undefined: something is missing, and nothing is asked.
 * @param wait milliseconds in which nobody types.
 */
export function useForecast(id: string, verb: string, fields: Record<string, string> | undefined, wait = 0): Foreseen {
  const [state, setState] = useState<{ key: string; found: Forecast; at: number }>();
  const [turn, setTurn] = useState(0);
  const asked = fields && Object.entries(fields).filter(([, value]) => value.trim() !== "");
  const key = asked && JSON.stringify([id, verb, asked, turn]);
  const first = useRef(true);

  useEffect(() => {
    if (key === undefined) return;
    const question = key;
    const end = new AbortController();
    // Nobody has typed anything yet when it is asked for the first time.
    const timer = setTimeout(load, first.current ? 0 : wait);
    first.current = false;
    return () => {
      clearTimeout(timer);
      end.abort();
    };

    async function load() {
      const [id, verb, asked] = JSON.parse(question) as [string, string, [string, string][]];
      let found: Forecast;
      try {
        found = await read<Forecast>("forecast", { ...Object.fromEntries(asked), dag_id: id, verb }, end.signal);
      } catch (error) {
        found = { problem: error instanceof Refused ? error.message : String(error) };
      }
      if (!end.signal.aborted) setState({ key: question, found, at: Date.now() / 1000 });
    }
  }, [key, wait]);

  const current = key !== undefined && state?.key === key ? state : undefined;
  const ask = useCallback(() => setTurn((before) => before + 1), []);
  return { found: current?.found, at: current?.at, asking: current === undefined, ask };
}

export function Answer({ foreseen, waits }: { foreseen: Foreseen; waits: string }) {
  const { found, at, asking, ask } = foreseen;
  return (
    <div className={`sp-answer sp-edge-${found?.problem ? "unknown" : (found?.tone ?? "unknown")}`} aria-live="polite">
      {asking || found === undefined ? (
        <Waits>{waits}</Waits>
      ) : found.problem ? (
        <>
          <p className="sp-word">
            <Dot tone="unknown" /> It is not known here.
          </p>
          <p className="sp-lines">{found.problem}</p>
        </>
      ) : (
        <>
          <p className="sp-word">
            <Dot tone={found.tone ?? "unknown"} /> {found.word}
          </p>
          <ul className="sp-answer-lines">
            {(found.lines ?? []).map((line, i) => (
              <li key={i} className="sp-lines">
                {line}
              </li>
            ))}
          </ul>
        </>
      )}
      <p className="sp-small">
        {at !== undefined && <span title={moment(at)}>Asked at {clock(at)}. </span>}
        <button type="button" className="sp-link" disabled={asking} onClick={ask}>
          Ask again
        </button>
      </p>
    </div>
  );
}

export function RollBack({ id }: { id: string }) {
  const foreseen = useForecast(id, "roll-back", {});
  const { found, ask } = foreseen;
  useEffect(() => {
    if (!found?.problem) return;
    const timer = setTimeout(ask, UNKNOWN_AGAIN);
    return () => clearTimeout(timer);
  }, [found, ask]);
  return (
    <Card id="sp-back" title="Can I roll back now?">
      <Answer foreseen={foreseen} waits="Asking what a roll-back would do…" />
    </Card>
  );
}
