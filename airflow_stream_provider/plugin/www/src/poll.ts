/** Reads again and again what is shown, and keeps the last picture where the server does not answer. */
import { useCallback, useEffect, useRef, useState } from "react";

import { Refused } from "./api";

const SLOWEST = 30;

export interface Polled<T> {
  data: T | undefined;
  /** Why the last read has failed; it is tried again. */
  error: Refused | undefined;
  /** Since when nothing is read; undefined: the picture is fresh. */
  staleSince: number | undefined;
  again: () => void;
}

/**
 * Poll while the page is visible.
 *
 * @param load reads it; a new function begins anew, and what another one has read is forgotten.
 * @param every seconds between two reads; after failures, up to SLOWEST.
 */
export function usePolled<T>(load: (signal: AbortSignal) => Promise<T>, every: number): Polled<T> {
  const [state, setState] = useState<{ of: unknown; data?: T; error?: Refused; readAt?: number; failures: number }>();
  const wake = useRef<() => void>(undefined);

  useEffect(() => {
    const end = new AbortController();
    let timer: number | undefined;
    let failures = 0;
    let busy = false;

    const turn = async () => {
      if (busy || document.hidden || end.signal.aborted) return;
      busy = true;
      clearTimeout(timer);
      try {
        const data = await load(end.signal);
        failures = 0;
        if (!end.signal.aborted) setState({ of: load, data, readAt: Date.now() / 1000, failures });
      } catch (error) {
        if (end.signal.aborted) return;
        failures += 1;
        const why = error instanceof Refused ? error : new Refused(0, String(error));
        setState((before) => ({ ...(before?.of === load ? before : {}), of: load, error: why, failures }));
      } finally {
        busy = false;
      }
      if (!end.signal.aborted) timer = window.setTimeout(turn, 1000 * Math.min(SLOWEST, every * 2 ** failures));
    };

    wake.current = () => void turn();
    void turn();
    const seen = () => void turn();
    document.addEventListener("visibilitychange", seen);
    return () => {
      end.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", seen);
    };
  }, [load, every]);

  const again = useCallback(() => wake.current?.(), []);
  const mine = state?.of === load ? state : undefined;
  return {
    data: mine?.data,
    error: mine?.failures ? mine.error : undefined,
    // One lost answer is no news.
    staleSince: mine !== undefined && mine.failures > 1 ? mine.readAt : undefined,
    again,
  };
}

/** The time in seconds, which grows every few seconds while somebody looks. */
export function useNow(every: number): number {
  const [now, setNow] = useState(() => Date.now() / 1000);
  useEffect(() => {
    const timer = setInterval(() => {
      if (!document.hidden) setNow(Date.now() / 1000);
    }, every * 1000);
    return () => clearInterval(timer);
  }, [every]);
  return now;
}
