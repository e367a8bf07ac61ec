import type { ComponentChildren } from 'preact';
import { Result } from './result.tsx';
import { makeVisible } from './text.tsx';
import './card.css';

interface ViewProps {
  readonly title: string;
  /** Stands beside the title: counts, badges. */
  readonly aside?: ComponentChildren;
  readonly actions?: ComponentChildren;
  readonly children: ComponentChildren;
}

/** A view: its heading, its actions and its content. The heading gets the focus when the view opens. */
export function View({ title, aside, actions, children }: ViewProps) {
  return (
    <section class="view">
      <header class="view-head">
        <h1 tabIndex={-1}>{makeVisible(title)}</h1>
        {aside !== undefined && <div class="view-aside">{aside}</div>}
        {actions !== undefined && <div class="view-actions">{actions}</div>}
      </header>
      <Result />
      {children}
    </section>
  );
}

/** A part of a view with a heading of its own. */
export function Card({
  title,
  aside,
  children,
  isFlush,
}: {
  readonly title?: string;
  readonly aside?: ComponentChildren;
  readonly children: ComponentChildren;
  /** True if the content reaches the border, as tables do. */
  readonly isFlush?: boolean;
}) {
  return (
    <section class={isFlush === true ? 'card card-flush' : 'card'}>
      {title !== undefined && (
        <header class="card-head">
          <h2>{title}</h2>
          {aside !== undefined && <div class="card-aside">{aside}</div>}
        </header>
      )}
      <div class="card-body">{children}</div>
    </section>
  );
}

/** Pairs of a name and a value. */
export function Facts({ rows }: { readonly rows: readonly (readonly [name: string, value: ComponentChildren])[] }) {
  return (
    <dl class="facts">
      {rows.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
