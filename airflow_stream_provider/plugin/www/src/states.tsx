/** What is shown where there is nothing to show, or no longer. */
import type { Refused } from "./api";
import { clock } from "./texts";

export function Failure({ error, again }: { error: Refused; again: () => void }) {
  return (
    <div className="sp-empty" role="alert">
      <p>
        <b>{error.status === 404 ? "There is no such stream, or you may not read its DAG." : error.message}</b>
      </p>
      {error.status !== 404 && <p className="sp-mute">It is asked again by itself. Its log says more.</p>}
      <button type="button" className="sp-button" onClick={again}>
        Ask now
      </button>
    </div>
  );
}

export function NotReached({ since, again }: { since: number | undefined; again: () => void }) {
  return (
    <div role="status">
      {since !== undefined && (
        <p className="sp-notice sp-on-warn">
          Airflow&apos;s API server is not reached since {clock(since)}. This is what it said last.{" "}
          <button type="button" className="sp-link" onClick={again}>
            Ask now
          </button>
        </p>
      )}
    </div>
  );
}

/** A part of the page that waits for an answer of its own. */
export function Waits({ children }: { children: string }) {
  return (
    <p className="sp-mute" role="status">
      <span className="sp-spin" aria-hidden="true" />
      {children}
    </p>
  );
}
