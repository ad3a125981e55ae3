/** A part of a stream's page, under its own heading. */
import type { ReactNode } from "react";

interface CardProps {
  id: string;
  title: string;
  /** What the title means. */
  hint?: string;
  /** Stands beside the title. */
  beside?: ReactNode;
  children: ReactNode;
}

export function Card({ id, title, hint, beside, children }: CardProps) {
  return (
    <section className="sp-card" aria-labelledby={id}>
      <div className="sp-card-head">
        <h2 id={id} title={hint}>
          {title}
        </h2>
        {beside}
      </div>
      {children}
    </section>
  );
}
