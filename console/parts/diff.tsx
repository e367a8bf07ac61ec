import { makeVisible } from './text.tsx';
import './diff.css';

const maxLines = 5000;

function kindOf(line: string): string {
  if (/^(?:diff |index |--- |\+\+\+ |new file|deleted file|old mode|new mode|similarity|rename )/.test(line))
    return 'head';
  if (line.startsWith('@@')) return 'hunk';
  if (line.startsWith('+')) return 'added';
  return line.startsWith('-') ? 'removed' : 'same';
}

/** Shows a unified diff. Its lines are text from outside. */
export function Diff({ patch }: { readonly patch: string }) {
  const lines = patch.replace(/\n$/, '').split('\n');
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
    <section class="diff" aria-label="Changes" tabIndex={0}>
      {lines.slice(0, maxLines).map((line, at) => (
        <div key={at} class={`diff-${kindOf(line)}`}>
          <bdi>{makeVisible(line.slice(0, 2000), '\t') || ' '}</bdi>
        </div>
      ))}
      {lines.length > maxLines && <div class="diff-head">{lines.length - maxLines} further lines are not shown.</div>}
    </section>
  );
}
