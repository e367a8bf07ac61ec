import type { ComponentChildren } from 'preact';
import { RequestError } from '../api/request.ts';
import type { Loaded } from '../api/use-request.ts';
import { Button } from './button.tsx';
import { makeVisible } from './text.tsx';
import './notice.css';

/** A text that asks for attention. */
export function Notice({
  tone = 'info',
  children,
}: {
  readonly tone?: 'info' | 'good' | 'warn' | 'bad';
  readonly children: ComponentChildren;
}) {
  return (
    <div class={`notice notice-${tone}`} role={tone === 'bad' ? 'alert' : 'status'}>
      {children}
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
