/** What this person may do with a stream: a few buttons, and a menu of the rest. */
import { Button, Menu, Portal } from "@chakra-ui/react";
import { useState } from "react";

import { ActDialog } from "./dialog";
import { sentence, spaced } from "./texts";
import type { StreamAnswer, Verb } from "./types";

const FIRST = ["stop", "restart", "upgrade", "roll-back"];
/** After these nobody runs the queries, or a driver is killed. */
export const ENDS = ["stop", "fence", "retire"];

// `roll-back` is a command; a button says what it does.
export const verbWords = (verb: string) => sentence(spaced(verb));

export function Acts({ answer }: { answer: StreamAnswer }) {
  const [chosen, setChosen] = useState<Verb>();
  const [open, setOpen] = useState(false);
  const first = FIRST.flatMap((verb) => answer.verbs.find((each) => each.verb === verb) ?? []);
  const rest = answer.verbs.filter((each) => !first.includes(each));
  const choose = (verb: Verb | undefined) => {
    setChosen(verb);
    setOpen(verb !== undefined);
  };

  if (answer.verbs.length === 0)
    return (
      <p className="sp-mute sp-no-acts">
        There are no buttons: you may not trigger DAG <span className="sp-mono">{answer.dags.operate}</span>.
      </p>
    );
  return (
    <div className="sp-acts" role="group" aria-label="Acts">
      {first.map((each) => (
        <Button key={each.verb} size="sm" variant="outline" title={each.about} onClick={() => choose(each)}>
          {verbWords(each.verb)}…
        </Button>
      ))}
      {rest.length > 0 && (
        <Menu.Root onSelect={({ value }) => choose(rest.find((each) => each.verb === value))}>
          <Menu.Trigger asChild>
            <Button size="sm" variant="outline">
              More <span aria-hidden="true">▾</span>
            </Button>
          </Menu.Trigger>
          <Portal>
            <Menu.Positioner>
              <Menu.Content className="sp-menu">
                {rest.map((each) => (
                  <Menu.Item key={each.verb} value={each.verb}>
                    <div>
                      <b>{verbWords(each.verb)}…</b>
                      <div className="sp-menu-about">{each.about}</div>
                    </div>
                  </Menu.Item>
                ))}
              </Menu.Content>
            </Menu.Positioner>
          </Portal>
        </Menu.Root>
      )}
      {chosen && <ActDialog key={chosen.verb} verb={chosen} answer={answer} open={open} close={() => setOpen(false)} />}
    </div>
  );
}
