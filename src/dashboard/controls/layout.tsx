/** Layout of screens: heads, cards, lists of facts, and placeholders. */
import type { Child } from "hono/jsx/dom";

export interface WithChildren {
  readonly children?: Child;
}

/** The title of a screen, and its buttons. */
export function ScreenHead({
  title,
  lead,
  children,
}: WithChildren & { readonly title: string; readonly lead: string }) {
  return (
    <header class="screen-head">
      <div>
        <h1 id="screen-title" tabindex={-1}>
          {title}
        </h1>
        <p class="lead">{lead}</p>
      </div>
      <div class="actions">{children}</div>
    </header>
  );
}

export function Card({
  title,
  aside,
  children,
  class: extra = "",
}: WithChildren & { readonly title: string; readonly aside?: Child; readonly class?: string }) {
  return (
    <section class={`card ${extra}`}>
      <header class="card-head">
        <h2>{title}</h2>
        <div class="aside hint">{aside}</div>
      </header>
      {children}
    </section>
  );
}

/** Stands in the place of an empty list: why it is empty, and what to do. */
export function Empty({ title, children }: WithChildren & { readonly title: string }) {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      <div class="hint">{children}</div>
    </div>
  );
}

export function Skeleton({ rows }: { readonly rows: number }) {
  return (
    <div class="skeleton" aria-busy="true" aria-label="Loading">
      {Array.from({ length: rows }, (_, i) => (
        <span key={i} />
      ))}
    </div>
  );
}

/** A list of names and values. */
export function Facts({
  facts,
}: {
  readonly facts: readonly (readonly [name: string, value: Child])[];
}) {
  return (
    <dl class="facts">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** A figure with its name. */
export function Tile({
  name,
  figure,
  note,
  isMain = false,
}: {
  readonly name: string;
  readonly figure: string | null;
  readonly note: string | null;
  readonly isMain?: boolean;
}) {
  return (
    <div class={isMain ? "tile main" : "tile"}>
      <span class="hint">{name}</span>
      <strong class="tile-figure">{figure ?? "–"}</strong>
      <span class="tile-note hint">{note}</span>
    </div>
  );
}
