import { formatCount } from './format.ts';
import { makeVisible, Text } from './text.tsx';
import './diff.css';

const maxLines = 5000;
const maxLine = 2000;

function kindOf(line: string): string {
  if (/^(?:diff |index |--- |\+\+\+ |new file|deleted file|old mode|new mode|similarity|rename )/.test(line))
    return 'head';
  if (line.startsWith('@@')) return 'hunk';
  if (line.startsWith('+')) return 'added';
  return line.startsWith('-') ? 'removed' : 'same';
}

/** Tells whether the page shows every character of a diff at once. */
export function isShownWhole(patch: string): boolean {
  const lines = patch.replace(/\n$/, '').split('\n');
  return lines.length <= maxLines && lines.every(({ length }) => length <= maxLine);
}

/** Shows a unified diff. Its lines are text from outside, and long ones wrap: nothing is hidden beyond the edge. */
export function Diff({ patch }: { readonly patch: string }) {
  const lines = patch.replace(/\n$/, '').split('\n');
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
    <section class="diff" aria-label="Changes" tabIndex={0}>
      {lines.slice(0, maxLines).map((line, at) => (
        <div key={at} class={`diff-${kindOf(line)}`}>
          {line.length > maxLine ? (
            <Text value={line} max={maxLine} keep={'\t'} />
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
