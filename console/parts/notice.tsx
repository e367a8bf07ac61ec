import type { ComponentChildren } from 'preact';
import { RequestError } from '../api/request.ts';
import type { Loaded } from '../api/use-request.ts';
import { isAdmin } from '../sign-in/signed-in.ts';
import { Button } from './button.tsx';
import { makeVisible } from './text.tsx';
import './notice.css';

/** A text that asks for attention. */
export function Notice({
  tone = 'info',
  children,
  onClose,
}: {
  readonly tone?: 'info' | 'good' | 'warn' | 'bad';
  readonly children: ComponentChildren;
  /** Gives it a button with which the reader closes it. */
  readonly onClose?: () => void;
}) {
  const role = tone === 'bad' ? 'alert' : 'status';
  if (onClose === undefined) {
    return (
      <div class={`notice notice-${tone}`} role={role}>
        {children}
      </div>
    );
  }
  return (
    <div class={`notice notice-closable notice-${tone}`}>
      <div role={role}>{children}</div>
      <Button kind="quiet" label="Close this notice" onClick={onClose}>
        ✕
      </Button>
    </div>
  );
}

/** Says what failed and what to do about it. */
export function ErrorNotice({ error, onRetry }: { readonly error: Error; readonly onRetry?: () => void }) {
  const hint = error instanceof RequestError ? error.hint : '';
  return (
    <Notice tone="bad">
      <p>
        <strong>{makeVisible(error.message, '\n')}</strong>
      </p>
      {hint !== '' && <p>{makeVisible(hint, '\n')}</p>}
      {onRetry !== undefined && <Button onClick={onRetry}>Try again</Button>}
    </Notice>
  );
}

/** Says that there is nothing yet, and what to do next. */
export function Empty({ title, children }: { readonly title: string; readonly children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      <div class="muted">{children}</div>
    </div>
  );
}

/** Says what adds the first entry of a list: the button of the page, and the command. */
export function NextStep({ button, command }: { readonly button: string; readonly command: string }) {
  return (
    <>
      {isAdmin.value ? `Press "${button}" above, or run ` : 'An admin can run '}
      <code>{command}</code>.
    </>
  );
}

/** Shows an answer once it is there, and until then that it is loading or why it failed. */
export function Answer<Value>({
  of,
  children,
}: {
  readonly of: Loaded<Value>;
  readonly children: (value: Value) => ComponentChildren;
}) {
  const { answer, error, reload } = of;
  const failure = error.value;
  const value = answer.value;
  return (
    <>
      {failure !== undefined && <ErrorNotice error={failure} onRetry={() => void reload()} />}
      {value === undefined && failure === undefined && (
        <p class="loading muted" role="status">
          Loading…
        </p>
      )}
      {value !== undefined && children(value)}
    </>
  );
}
