/** The releases: what each runs, and two of them side by side. */
import { useMemo, useState } from "react";

import { Card } from "./card";
import { moment, stamp } from "./texts";
import { When } from "./tones";
import type { Release } from "./types";

interface Line {
  name: string;
  left: string | undefined;
  right: string | undefined;
}

/** Return two lists side by side, with what both have, in order, on one line. */
export function aligned(left: string[], right: string[]): [string | undefined, string | undefined][] {
  // common[i][j]: how many both have from i and j on.
  const common = Array.from({ length: left.length + 1 }, () => new Array<number>(right.length + 1).fill(0));
  for (let i = left.length - 1; i >= 0; i--)
    for (let j = right.length - 1; j >= 0; j--)
      common[i]![j] =
        left[i] === right[j] ? common[i + 1]![j + 1]! + 1 : Math.max(common[i + 1]![j]!, common[i]![j + 1]!);
  const pairs: [string | undefined, string | undefined][] = [];
  let [i, j] = [0, 0];
  while (i < left.length || j < right.length) {
    if (i < left.length && j < right.length && left[i] === right[j]) pairs.push([left[i++], right[j++]]);
    else if (j >= right.length || (i < left.length && common[i + 1]![j]! > common[i]![j + 1]!))
      pairs.push([left[i++], undefined]);
    else if (i >= left.length || common[i + 1]![j]! < common[i]![j + 1]!) pairs.push([undefined, right[j++]]);
    // Nothing is lost by either: a changed argument stands beside what it was.
    else pairs.push([left[i++], right[j++]]);
  }
  return pairs;
}

/** Return arguments with the value of an option beside it: `--window 5 minutes`. */
function options(all: string[]): string[] {
  const found: string[] = [];
  let named = false;
  for (const each of all) {
    if (named && !each.startsWith("-")) found.push(`${found.pop()} ${each}`);
    else found.push(each);
    named = each.startsWith("--") && !each.includes("=");
  }
  return found;
}

function lines(left: Release, right: Release | undefined): Line[] {
  const list = (name: string, of: (release: Release) => string[]) =>
    aligned(of(left), right ? of(right) : []).map(([a, b]) => ({ name, left: a, right: b }));
  const settings = (name: string, of: (release: Release) => Record<string, string>) =>
    [...new Set([...Object.keys(of(left)), ...Object.keys(right ? of(right) : {})])]
      .sort()
      .map((key) => ({ name: name + key, left: of(left)[key], right: right && of(right)[key] }));
  return [
    { name: "Application", left: left.application, right: right?.application },
    ...list("Argument", (each) => options(each.arguments)),
    ...list("Python file", (each) => each.py_files),
    { name: "Storage", left: left.storage, right: right?.storage },
    ...settings("Environment ", (each) => each.environment),
    ...settings("", (each) => each.conf),
  ];
}

const label = (each: Release) =>
  `${each.version} (${each.hash.slice(0, 8)}${each.holds ? ", holds the stream" : each.stands_by ? ", stands by" : ""})`;

export function Releases({ releases, now }: { releases: Release[]; now: number }) {
  const holds = releases.find((each) => each.holds) ?? releases[0];
  const other = releases.find((each) => each !== holds && each.stands_by) ?? releases.find((each) => each !== holds);
  const [chosen, setChosen] = useState<{ left?: string; right?: string }>({});
  const [all, setAll] = useState(false);
  const left = releases.find((each) => each.hash === chosen.left) ?? holds;
  const right = chosen.right === "" ? undefined : (releases.find((each) => each.hash === chosen.right) ?? other);
  const rows = useMemo(() => (left ? lines(left, right) : []), [left, right]);
  const differ = rows.filter((each) => each.left !== each.right);
  const shown = right && !all ? differ : rows;

  return (
    <Card
      id="sp-releases"
      title="Releases"
      hint="An immutable description of what to run, with a hash over all of it"
      beside={
        right && (
          <label className="sp-check">
            <input type="checkbox" checked={all} onChange={(event) => setAll(event.target.checked)} />
            also what is the same
          </label>
        )
      }
    >
      {left === undefined ? (
        <p className="sp-mute">No release was deployed yet.</p>
      ) : (
        <table className="sp-table sp-compare">
          <thead>
            <tr>
              <th scope="col">Setting</th>
              <th scope="col">
                <Choice
                  name="Release"
                  releases={releases}
                  value={left}
                  now={now}
                  choose={(hash) => setChosen({ ...chosen, left: hash })}
                />
              </th>
              {(right || releases.length > 1) && (
                <th scope="col">
                  <Choice
                    name="Release beside it"
                    releases={releases}
                    value={right}
                    now={now}
                    none
                    choose={(hash) => setChosen({ ...chosen, right: hash })}
                  />
                </th>
              )}
            </tr>
          </thead>
          <tbody>
            {shown.map((each, i) => {
              const differs = right !== undefined && each.left !== each.right;
              return (
                <tr key={i} className={differs ? "sp-differs" : undefined}>
                  <th scope="row">
                    {differs && (
                      <span className="sp-not" title="They differ">
                        ≠<span className="sp-hidden">differs: </span>
                      </span>
                    )}
                    {each.name}
                  </th>
                  <Value text={each.left} />
                  {right && <Value text={each.right} />}
                </tr>
              );
            })}
            {shown.length === 0 && (
              <tr>
                <td colSpan={3} className="sp-mute">
                  They do not differ in arguments, conf or files.
                </td>
              </tr>
            )}
          </tbody>
        </table>
      )}
    </Card>
  );
}

function Value({ text }: { text: string | undefined }) {
  return <td className="sp-mono">{text === undefined ? <span className="sp-mute">not set</span> : text}</td>;
}

interface ChoiceProps {
  name: string;
  releases: Release[];
  value: Release | undefined;
  now: number;
  none?: boolean;
  choose: (hash: string) => void;
}

function Choice({ name, releases, value, now, none, choose }: ChoiceProps) {
  return (
    <>
      <select aria-label={name} value={value?.hash ?? ""} onChange={(event) => choose(event.target.value)}>
        {none && <option value="">nothing beside it</option>}
        {releases.map((each) => (
          <option key={each.hash} value={each.hash}>
            {label(each)}
          </option>
        ))}
      </select>
      {value && value.deployed_at !== null && (
        <div className="sp-small" title={moment(value.deployed_at)}>
          deployed <When at={value.deployed_at}>{stamp(value.deployed_at, now)}</When>
        </div>
      )}
    </>
  );
}
