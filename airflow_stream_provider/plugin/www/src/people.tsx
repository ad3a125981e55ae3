/** Who is there, and what they do now. */
import { Card } from "./card";
import { ago, clock, moment } from "./texts";
import { Away, When } from "./tones";
import type { Driver, Step } from "./types";

export function Now({ steps }: { steps: Step[] }) {
  if (steps.length === 0) return null;
  return (
    <Card id="sp-now" title="What goes on now">
      <ol className="sp-steps" aria-live="polite">
        {steps.map((each, i) => (
          <li key={i} className={each.done ? "sp-done" : "sp-open"}>
            <span className="sp-step" aria-hidden="true">
              {each.done ? "✓" : <span className="sp-spin" />}
            </span>
            <div>
              <b>{each.words}</b>
              <span className="sp-hidden">{each.done ? " (done)" : " (goes on)"}</span>
              {each.text && <span className="sp-lines">: {each.text}</span>}
            </div>
            {each.at !== null && (
              <span className="sp-small">
                <When at={each.at}>{clock(each.at)}</When>
              </span>
            )}
          </li>
        ))}
      </ol>
    </Card>
  );
}

export function Drivers({ drivers, now }: { drivers: Driver[]; now: number }) {
  return (
    <Card
      id="sp-drivers"
      title="Drivers"
      hint="A driver is a Spark driver process. One holds the stream; a standby is up and has rehearsed."
    >
      {drivers.length === 0 ? (
        <p className="sp-mute">No driver of this stream is up.</p>
      ) : (
        <table className="sp-table">
          <thead>
            <tr>
              <th scope="col">Driver</th>
              <th scope="col">Role</th>
              <th scope="col">Release</th>
              <th scope="col">What it does</th>
              <th scope="col">Last sign of life</th>
              <th scope="col">Where</th>
            </tr>
          </thead>
          <tbody>
            {drivers.map((each) => (
              <tr key={each.id}>
                <th scope="row" className="sp-mono">
                  {each.id}
                </th>
                <td>
                  <span className={`sp-chip sp-on-${each.role === "holder" ? "good" : "rest"}`}>{each.role}</span>
                </td>
                <td>{each.version || "-"}</td>
                <td>{each.says || "-"}</td>
                <td title={moment(each.sign_at)}>{each.sign_at === null ? "none yet" : ago(each.sign_at, now)}</td>
                <td>
                  {each.ui ? <Away to={each.ui}>Spark UI</Away> : "-"}
                  {each.host && <div className="sp-small">{each.host}</div>}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Card>
  );
}
