import './tabs.css';

/** Links between the parts of a view. The address says which one is shown. */
export function Tabs({
  label,
  tabs,
  current,
}: {
  readonly label: string;
  readonly tabs: readonly {
    readonly name: string;
    readonly label: string;
    readonly href: string;
    readonly count?: number;
  }[];
  readonly current: string;
}) {
  return (
    <nav class="tabs" aria-label={label}>
      {tabs.map(({ name, label: text, href, count }) => (
        <a key={name} href={href} aria-current={name === current ? 'page' : undefined}>
          {text}
          {count !== undefined && <span class="tabs-count">{count}</span>}
        </a>
      ))}
    </nav>
  );
}
