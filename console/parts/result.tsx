import { effect, signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { signedIn } from '../sign-in/signed-in.ts';
import { Notice } from './notice.tsx';

const shown = signal<ComponentChildren | undefined>(undefined);

/** Says below the heading of the view what an action has done, until the reader closes it or goes on. */
export function showResult(content: ComponentChildren): void {
  shown.value = content;
}

export function hideResult(): void {
  shown.value = undefined;
}

/** Nothing of one sign-in is shown to the next. */
effect(() => {
  if (signedIn.value === undefined) hideResult();
});

/** The place for the result of the latest action. */
export function Result() {
  if (shown.value === undefined) return null;
  const close = () => {
    hideResult();
    // The button that had the focus is gone.
    document.querySelector<HTMLElement>('main h1')?.focus();
  };
  return (
    <Notice tone="good" onClose={close}>
      {shown.value}
    </Notice>
  );
}
