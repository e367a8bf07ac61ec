import { batch, type Signal, useSignal, useSignalEffect } from '@preact/signals';
import type { ComponentType } from 'preact';
import { useEffect } from 'preact/hooks';
import { View } from '../parts/card.tsx';
import { ErrorNotice } from '../parts/notice.tsx';
import { givenCode } from '../sign-in/given-code.ts';
import { SignIn } from '../sign-in/sign-in.tsx';
import { signedIn } from '../sign-in/signed-in.ts';
import { focusHeading } from './focus-heading.ts';
import { Header } from './header.tsx';
import { Navigation } from './navigation.tsx';
import { askedPath, askedRoute, showAskedRoute } from './route.ts';
import { views } from './views.ts';
import './frame.css';

type Shown = { readonly key: string; readonly View: ComponentType } | { readonly key: string; readonly error: Error };

/** The console: the sign-in page, or the frame with the view that the address names. */
export function App() {
  if (signedIn.value === undefined || givenCode.value !== undefined) return <SignIn />;
  return <Frame />;
}

function Frame() {
  const shown = useSignal<Shown | undefined>(undefined);
  const isMenuOpen = useSignal(false);
  useShownView(shown);
  useEffect(() => {
    isMenuOpen.value = false;
  }, [askedPath.value]);
  const [name = 'overview'] = askedRoute.value.path;
  const current = shown.value;
  return (
    <div class="frame">
      <a class="skip" href="#main">
        Skip to the content
      </a>
      <Header isMenuOpen={isMenuOpen} />
      <Navigation current={name} isOpen={isMenuOpen.value} />
      <main id="main" tabIndex={-1} data-path={current?.key}>
        {current === undefined && (
          <p class="loading muted" role="status">
            Loading…
          </p>
        )}
        {current !== undefined && 'error' in current && (
          <View title="This view cannot be shown">
            <ErrorNotice error={current.error} onRetry={() => location.reload()} />
          </View>
        )}
        {current !== undefined && 'View' in current && <current.View key={current.key} />}
      </main>
    </div>
  );
}

/** Loads the view of the address, names it in the title, and moves the focus to its heading. */
function useShownView(shown: Signal<Shown | undefined>): void {
  useSignalEffect(() => {
    const key = askedPath.value;
    const [name = 'overview', id] = askedRoute.peek().path;
    const entry = views.find((view) => view.name === name);
    let isCurrent = true;
    document.title = `${entry?.label ?? 'Not found'}${id === undefined ? '' : `: ${id.slice(0, 24)}`} · Ambit`;
    const isFirst = shown.peek() === undefined;
    const load = entry?.load(id !== undefined) ?? Promise.reject(new Error('The console has no view at this address.'));
    load.then(
      (View) => {
        if (!isCurrent) return;
        batch(() => {
          showAskedRoute();
          shown.value = { key, View };
        });
        if (!isFirst) focusHeading();
      },
      (error: unknown) => {
        if (isCurrent) shown.value = { key, error: error as Error };
      },
    );
    return () => {
      isCurrent = false;
    };
  });
}
