import { escapeControls } from '../lib/text/escape-controls.ts';

/** A path as the caller wrote it, for a message. An absolute one is not repeated: it may be one of the host. */
export function shownPath(path: unknown): string {
  if (typeof path !== 'string' || path.startsWith('/')) return 'The path';
  return `"${escapeControls(path.length > 200 ? `${path.slice(0, 200)}…` : path)}"`;
}
