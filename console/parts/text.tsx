import { useSignal } from '@preact/signals';
import { formatAge, formatCount, formatDuration, formatInstant, hueOf, now } from './format.ts';
import { makeVisible } from './make-visible.ts';
import './text.css';

export { makeVisible };

const maxShown = 300;
/** A browser needs seconds to lay out a longer text. */
const maxOpen = 200_000;

/**
 * Shows text from outside as one run that cannot reorder what stands around it. Long text is cut, with a button to show
 * the rest. With an infinite `max` it is never cut.
 */
export function Text({
  value,
  max = maxShown,
  keep = '',
}: {
  readonly value: string;
  readonly max?: number;
  /** Control characters that stay as they are, such as line breaks in a cell that shows them. */
  readonly keep?: string;
}) {
  const isOpen = useSignal(false);
  const isLong = value.length > max;
  const most = !isLong ? value.length : isOpen.value ? maxOpen : max;
  const shown = makeVisible(value.slice(0, most), keep) + (value.length > most ? '…' : '');
  const rest = isLong && isOpen.value ? value.length - maxOpen : 0;
  return (
    <>
      <bdi class="text">{shown}</bdi>
      {rest > 0 && <span class="muted"> ({formatCount(rest)} more characters cannot be shown here)</span>}
      {isLong && (
        <button
          type="button"
          class="text-more"
          onClick={() => {
            isOpen.value = !isOpen.value;
          }}
        >
          {isOpen.value ? 'Show less' : nameOpening(value)}
        </button>
      )}
    </>
  );
}

function nameOpening({ length }: string): string {
  if (length <= maxOpen) return `Show all ${formatCount(length)} characters`;
  return `Show ${formatCount(maxOpen)} of ${formatCount(length)} characters`;
}

/** Shows text of several lines from outside as it is, such as a diff or stderr. */
export function Lines({ value, max = 20_000 }: { readonly value: string; readonly max?: number }) {
  const isOpen = useSignal(false);
  const isLong = value.length > max;
  const shown = isLong && !isOpen.value ? value.slice(0, max) : value;
  return (
    <>
      <pre class="lines">
        <bdi>{makeVisible(shown, '\n\t')}</bdi>
      </pre>
      {isLong && !isOpen.value && (
        <button
          type="button"
          class="text-more"
          onClick={() => {
            isOpen.value = true;
          }}
        >
          Show all {formatCount(value.length)} characters
        </button>
      )}
    </>
  );
}

/** Shows how long ago something was, with the exact time as a title. */
export function Ago({ at }: { readonly at: number | string | null | undefined }) {
  if (at === null || at === undefined) return <span class="muted">never</span>;
  const ms = now.value - new Date(at).getTime();
  return (
    <time class="nowrap" dateTime={formatInstant(at)} title={formatInstant(at)}>
      {ms < 1500 ? 'now' : `${formatAge(at)} ago`}
    </time>
  );
}

/** Shows the time until something happens. */
export function Until({ at }: { readonly at: number | string }) {
  const ms = new Date(at).getTime() - now.value;
  return (
    <time class="nowrap" dateTime={formatInstant(at)} title={formatInstant(at)}>
      {ms <= 0 ? 'now' : `in ${formatDuration(ms)}`}
    </time>
  );
}

/** Shows a short id with the whole one as a title. */
export function Id({ value }: { readonly value: string }) {
  return (
    <code title={value} class="nowrap">
      {makeVisible(value.slice(0, 8))}
    </code>
  );
}

/** Shows the colour of a session, so that the same session is easy to find in several places. */
export function Swatch({ of }: { readonly of: string }) {
  return <span class="swatch" aria-hidden="true" style={{ '--hue': String(hueOf(of)) }} />;
}
