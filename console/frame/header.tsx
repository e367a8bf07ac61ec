import { type Signal, useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { isPaused, streamState } from '../api/events.ts';
import { plainBase } from '../api/request.ts';
import { Badge } from '../parts/badge.tsx';
import { Button } from '../parts/button.tsx';
import { Until } from '../parts/text.tsx';
import { leave } from '../sign-in/exchange.ts';
import { nameSignIn, signedIn } from '../sign-in/signed-in.ts';
import { Consoles } from './consoles.tsx';
import { askedPath, hrefOf } from './route.ts';
import { chooseTheme, theme } from './theme.ts';

/** The top of the page: the state of the event stream, the pause button, and the sign-in. */
export function Header({ isMenuOpen }: { readonly isMenuOpen: Signal<boolean> }) {
  return (
    <header class="header">
      <button
        type="button"
        class="menu-button"
        aria-expanded={isMenuOpen.value}
        aria-controls="navigation"
        aria-label="Views"
        onClick={() => {
          isMenuOpen.value = !isMenuOpen.value;
        }}
      >
        <svg viewBox="0 0 24 24" width="20" height="20" aria-hidden="true">
          <path d="M4 7h16M4 12h16M4 17h16" />
        </svg>
      </button>
      <a class="brand" href={hrefOf(['overview'])}>
        <img src="./favicon.svg" alt="" width="24" height="24" />
        Ambit
      </a>
      <span class="header-host muted">{new URL(plainBase).host}</span>
      <div class="header-end">
        <StreamState />
        <Button
          isPressed={isPaused.value}
          onClick={() => {
            isPaused.value = !isPaused.value;
          }}
        >
          {isPaused.value ? 'Resume' : 'Pause'}
        </Button>
        <Account />
      </div>
    </header>
  );
}

const states = {
  off: ['plain', 'Not connected'],
  connecting: ['plain', 'Connecting'],
  live: ['good', 'Live'],
  lost: ['bad', 'Connection lost'],
} as const;

function StreamState() {
  const [tone, text] = isPaused.value ? (['warn', 'Paused'] as const) : states[streamState.value];
  return (
    <span role="status" class="stream-state">
      <Badge tone={tone}>{text}</Badge>
    </span>
  );
}

/** Who is signed in, with the theme, all signed-in consoles and the way out. */
function Account() {
  const isOpen = useSignal(false);
  const isListing = useSignal(false);
  const menu = useRef<HTMLDetailsElement>(null);
  useEffect(() => {
    isOpen.value = false;
  }, [askedPath.value]);
  useEffect(() => {
    const closeFromOutside = ({ target }: Event) => {
      if (!menu.current?.contains(target as Node)) isOpen.value = false;
    };
    document.addEventListener('pointerdown', closeFromOutside);
    return () => document.removeEventListener('pointerdown', closeFromOutside);
  }, []);
  const { role = 'viewer', by = '', expiresAt = '' } = signedIn.value ?? {};
  return (
    <>
      <details
        ref={menu}
        class="account"
        open={isOpen.value}
        onToggle={({ currentTarget }) => {
          isOpen.value = currentTarget.open;
        }}
        onKeyDown={(event) => {
          // The signal hears only later that the menu was opened.
          if (event.key !== 'Escape' || !event.currentTarget.open) return;
          event.currentTarget.open = false;
          event.currentTarget.querySelector('summary')?.focus();
        }}
      >
        <summary class="button button-plain">{role}</summary>
        <div class="account-menu">
          <p>
            Signed in {nameSignIn(by)}, role {role}.
          </p>
          <p class="muted">
            Ends <Until at={expiresAt} />.
          </p>
          <label class="field">
            <span>Theme</span>
            <select value={theme.value} onChange={({ currentTarget }) => chooseTheme(currentTarget.value)}>
              <option value="">As the system</option>
              <option value="light">Light</option>
              <option value="dark">Dark</option>
            </select>
          </label>
          {role === 'admin' && (
            <Button
              onClick={() => {
                isOpen.value = false;
                isListing.value = true;
              }}
            >
              Signed-in consoles
            </Button>
          )}
          <Button onClick={() => leave('You have signed out.')}>Sign out</Button>
        </div>
      </details>
      {isListing.value && (
        <Consoles
          onClose={() => {
            isListing.value = false;
          }}
        />
      )}
    </>
  );
}
