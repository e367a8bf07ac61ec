import { batch, type Signal, useSignal, useSignalEffect } from '@preact/signals';
import type { ComponentType } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { RequestError } from '../api/request.ts';
import { View } from '../parts/card.tsx';
import { Empty, ErrorNotice } from '../parts/notice.tsx';
import { hideResult } from '../parts/result.tsx';
import { givenCode } from '../sign-in/given-code.ts';
import { SignIn } from '../sign-in/sign-in.tsx';
import { signedIn } from '../sign-in/signed-in.ts';
import { focusHeading } from './focus-heading.ts';
import { Header } from './header.tsx';
import { Navigation } from './navigation.tsx';
import { askedPath, askedRoute, hrefOf, showAskedRoute } from './route.ts';
import { views } from './views.ts';
import './frame.css';

type Shown = { readonly key: string; readonly View: ComponentType } | { readonly key: string; readonly error: Error };

/** Where no view is. */
function NoView() {
  return (
    <View title="Not found">
      <Empty title="The console has no view at this address.">
        <a href={hrefOf(['overview'])}>Go to the overview</a>
      </Empty>
    </View>
  );
}

/** The console: the sign-in page, or the frame with the view that the address names. */
export function App() {
  if (signedIn.value === undefined || givenCode.value !== undefined) return <SignIn />;
  return <Frame />;
}

function Frame() {
  const shown = useSignal<Shown | undefined>(undefined);
  const isMenuOpen = useSignal(false);
  const content = useRef<HTMLElement>(null);
  useShownView(shown);
  useEffect(() => {
    isMenuOpen.value = false;
    hideResult();
  }, [askedPath.value]);
  const [name = 'overview'] = askedRoute.value.path;
  const current = shown.value;
  return (
    <div class="frame">
      <button type="button" class="button skip" onClick={() => content.current?.focus()}>
        Skip to the content
      </button>
      <Header isMenuOpen={isMenuOpen} />
      <Navigation current={name} isOpen={isMenuOpen.value} />
      <main ref={content} tabIndex={-1} data-path={current?.key}>
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

/** The addresses whose view could not be loaded since the page was opened. */
const failedViews = new Set<string>();

function explainFailedView(): Error {
  return new RequestError(0, {
    detail: 'The code of this view could not be loaded.',
    hint: 'Check that the gateway is running: ambit status',
  });
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
    const load = entry?.load(id !== undefined) ?? Promise.resolve(NoView);
    load.then(
      (View) => {
        if (!isCurrent) return;
        batch(() => {
          showAskedRoute();
          shown.value = { key, View };
        });
        if (!isFirst) focusHeading();
      },
      () => {
        if (!isCurrent) return;
        // Firefox never loads a script again that has failed once. The new document begins with no failures.
        if (failedViews.has(key)) return location.reload();
        failedViews.add(key);
        shown.value = { key, error: explainFailedView() };
      },
    );
    return () => {
      isCurrent = false;
    };
  });
}
