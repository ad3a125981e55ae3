/** The dialog of an act: what it would do is said before the button, and nothing is sent that the server would refuse. */
import { Button, Dialog, Portal } from "@chakra-ui/react";
import { useRef, useState } from "react";
import { useNavigate } from "react-router-dom";

import { ENDS, verbWords } from "./acts";
import { Refused, act } from "./api";
import { Answer, useForecast } from "./forecast";
import type { StreamAnswer, Verb } from "./types";

const MOST = 500;

interface Field {
  label: string;
  hint: string;
  required?: boolean;
  /** Values to choose from, with their words. */
  options?: (answer: StreamAnswer) => [string, string][];
}

const FIELDS: Record<string, Field> = {
  confirmed_by: {
    label: "Confirmed by",
    hint: "Your name, if you made sure that the driver or job does not run and cannot come back. Empty: the cluster is asked.",
  },
  job: {
    label: "Job",
    hint: "The cluster's id of the job that runs now; the cluster ends it. Empty: you are asked to end it.",
  },
  release: {
    label: "Stored release",
    hint: "The release that is to hold the stream.",
    required: true,
    options: (answer) =>
      answer.releases.map((each) => [
        each.hash,
        `${each.version} (${each.hash.slice(0, 8)}${each.holds ? ", holds now" : ""})`,
      ]),
  },
  to: {
    label: "Read again since",
    hint: "A time such as 2026-11-25T02:00 (UTC), or a length such as 2h.",
    required: true,
  },
  query: {
    label: "Query",
    hint: "The query that reads them again.",
    options: (answer) => [
      ["", "all queries"],
      ...answer.queries.map((each): [string, string] => [each.name, each.name]),
    ],
  },
};

interface Props {
  verb: Verb;
  answer: StreamAnswer;
  open: boolean;
  close: () => void;
}

export function ActDialog({ verb, answer, open, close }: Props) {
  const reasonBox = useRef<HTMLTextAreaElement>(null);
  return (
    <Dialog.Root
      open={open}
      onOpenChange={(change) => !change.open && close()}
      size="lg"
      scrollBehavior="inside"
      initialFocusEl={() => reasonBox.current}
      lazyMount
      unmountOnExit
    >
      <Portal>
        <Dialog.Backdrop />
        <Dialog.Positioner>
          <Dialog.Content className="sp-dialog">
            <Dialog.Header>
              <Dialog.Title>
                {verbWords(verb.verb)}: {answer.row.name}
              </Dialog.Title>
            </Dialog.Header>
            <Form verb={verb} answer={answer} close={close} reasonBox={reasonBox} />
          </Dialog.Content>
        </Dialog.Positioner>
      </Portal>
    </Dialog.Root>
  );
}

function Form({ verb, answer, close, reasonBox }: Omit<Props, "open"> & { reasonBox: React.Ref<HTMLTextAreaElement> }) {
  const navigate = useNavigate();
  const [values, setValues] = useState<Record<string, string>>({});
  const [reason, setReason] = useState("");
  const [pressed, setPressed] = useState(false);
  const [sending, setSending] = useState(false);
  const [failure, setFailure] = useState("");
  const missing = verb.asks.filter((name) => FIELDS[name]?.required && !values[name]?.trim());
  const foreseen = useForecast(answer.row.id, verb.verb, missing.length > 0 ? undefined : values, 600);
  const { found } = foreseen;
  const unknown = found?.problem !== undefined;
  // Yes in whatever words: neither a refusal nor an answer that there is nothing to do.
  const may = found !== undefined && (unknown || found.tone === "good");

  const send = async () => {
    setPressed(true);
    if (!reason.trim() || missing.length > 0 || !may || sending) return;
    setSending(true);
    setFailure("");
    const filled = Object.fromEntries(Object.entries(values).filter(([, value]) => value.trim() !== ""));
    try {
      navigate(
        await act(answer.dags.operate, { ...filled, operation: verb.verb, reason: reason.trim(), ask: unknown }),
      );
    } catch (error) {
      setFailure(error instanceof Refused ? error.message : String(error));
      setSending(false);
    }
  };

  const words = verbWords(verb.verb);
  return (
    <>
      <Dialog.Body>
        <p className="sp-about">{verb.about}</p>
        <form
          id="sp-act"
          noValidate
          onSubmit={(event) => {
            event.preventDefault();
            void send();
          }}
        >
          {verb.asks.map((name) => (
            <Input
              key={name}
              name={name}
              answer={answer}
              value={values[name] ?? ""}
              missing={pressed && missing.includes(name)}
              set={(value) => setValues((before) => ({ ...before, [name]: value }))}
            />
          ))}
          <div className="sp-field">
            <label htmlFor="sp-reason">
              Reason <span className="sp-mute">(required)</span>
            </label>
            <textarea
              id="sp-reason"
              ref={reasonBox}
              rows={2}
              maxLength={MOST}
              required
              value={reason}
              aria-describedby="sp-reason-hint"
              aria-invalid={pressed && !reason.trim()}
              onChange={(event) => setReason(event.target.value)}
            />
            <p id="sp-reason-hint" className={pressed && !reason.trim() ? "sp-small sp-bad" : "sp-small"}>
              {pressed && !reason.trim() ? "There is no reason yet. " : ""}The history says it to everybody: no secrets.
            </p>
          </div>
        </form>
        <h3 className="sp-what">What it would do now</h3>
        {missing.length > 0 ? (
          <p className="sp-mute">
            It is said once {missing.map((name) => FIELDS[name]?.label ?? name).join(", ")} is filled in.
          </p>
        ) : (
          <Answer foreseen={foreseen} waits="Asking what it would do…" />
        )}
        <div role="alert">{failure && <p className="sp-notice sp-on-bad">{failure}</p>}</div>
      </Dialog.Body>
      <Dialog.Footer>
        <p className="sp-small sp-grow" role="status">
          {hint()}
        </p>
        <Button variant="outline" size="sm" onClick={close}>
          Cancel
        </Button>
        <Button
          type="submit"
          form="sp-act"
          size="sm"
          colorPalette={ENDS.includes(verb.verb) ? "red" : "brand"}
          disabled={!may || missing.length > 0}
          loading={sending}
          loadingText="Sending…"
        >
          {words}
        </Button>
      </Dialog.Footer>
    </>
  );

  function hint(): string {
    if (missing.length > 0 || found === undefined) return "";
    if (unknown) return "What it does is not known: the run says it first, and asks you before it acts.";
    return may ? `It starts a run of ${answer.dags.operate}.` : "Nothing is sent.";
  }
}

interface InputProps {
  name: string;
  answer: StreamAnswer;
  value: string;
  missing: boolean;
  set: (value: string) => void;
}

function Input({ name, answer, value, missing, set }: InputProps) {
  const field = FIELDS[name] ?? { label: name, hint: "" };
  const options = field.options?.(answer);
  const id = `sp-field-${name}`;
  const shared = {
    id,
    value,
    "aria-describedby": `${id}-hint`,
    "aria-invalid": missing,
    required: field.required ?? false,
  };
  return (
    <div className="sp-field">
      <label htmlFor={id}>
        {field.label} {field.required && <span className="sp-mute">(required)</span>}
      </label>
      {options ? (
        <select {...shared} onChange={(event) => set(event.target.value)}>
          {!options.some(([each]) => each === "") && <option value="">choose one</option>}
          {options.map(([each, words]) => (
            <option key={each} value={each}>
              {words}
            </option>
          ))}
        </select>
      ) : (
        <input type="text" autoComplete="off" {...shared} onChange={(event) => set(event.target.value)} />
      )}
      <p id={`${id}-hint`} className={missing ? "sp-small sp-bad" : "sp-small"}>
        {missing ? "This is needed. " : ""}
        {field.hint}
      </p>
    </div>
  );
}
