import { formatCount } from './format.ts';
import { makeVisible, Text } from './text.tsx';
import './diff.css';

const maxLines = 5000;
const maxLineLength = 2000;

interface DiffProps {
  readonly patch: string;
  /** The name for screen readers. */
  readonly label?: string;
  /** The change of one text. It has no lines about files. */
  readonly isOneText?: boolean;
}

function kindOf(line: string, isOneText: boolean): string {
  if (
    !isOneText &&
    /^(?:diff |index |--- |\+\+\+ |new file|deleted file|old mode|new mode|similarity|rename )/.test(line)
  )
    return 'head';
  if (line.startsWith('@@')) return 'hunk';
  if (line.startsWith('+')) return 'added';
  return line.startsWith('-') ? 'removed' : 'same';
}

/** Tells whether the page shows every character of a diff at once. */
export function isShownWhole(patch: string): boolean {
  const lines = patch.replace(/\n$/, '').split('\n');
  return lines.length <= maxLines && lines.every(({ length }) => length <= maxLineLength);
}

/** Shows a unified diff. Its lines are text from outside, and long ones wrap: nothing is hidden beyond the edge. */
export function Diff({ patch, label = 'Changes', isOneText = false }: DiffProps) {
  const lines = patch.replace(/\n$/, '').split('\n');
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
    <section class={isOneText ? 'diff diff-text' : 'diff'} aria-label={label} tabIndex={0}>
      {lines.slice(0, maxLines).map((line, at) => (
        <div key={at} class={`diff-${kindOf(line, isOneText)}`}>
          {line.length > maxLineLength ? (
            <Text value={line} max={maxLineLength} keep={'\t'} />
          ) : (
            <bdi>{makeVisible(line, '\t') || ' '}</bdi>
          )}
        </div>
      ))}
      {lines.length > maxLines && (
        <div class="diff-head">{formatCount(lines.length - maxLines)} further lines are not shown.</div>
      )}
    </section>
  );
}
