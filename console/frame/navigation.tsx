import { hrefOf } from './route.ts';
import { views } from './views.ts';

/** The list of views. On a narrow screen it opens with the button in the header. */
export function Navigation({ current, isOpen }: { readonly current: string; readonly isOpen: boolean }) {
  return (
    <nav id="navigation" class={isOpen ? 'navigation navigation-open' : 'navigation'} aria-label="Views">
      <ul>
        {views.map(({ name, label, icon }) => (
          <li key={name}>
            <a href={hrefOf([name])} aria-current={name === current ? 'page' : undefined}>
              <svg viewBox="0 0 24 24" width="18" height="18" aria-hidden="true">
                <path d={icon} />
              </svg>
              {label}
            </a>
          </li>
        ))}
      </ul>
    </nav>
  );
}
