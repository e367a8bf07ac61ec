import type { Kind } from './file-info.ts';
import { SafeRootError } from './saferoot-error.ts';

/** Looking at something or reading it, or making, changing, moving or removing it. */
export type Deed = 'read' | 'write';

/**
 * Asked with the names that lead to something, links followed, while it is held and before anything is done to it. The
 * answer is why it may not be, as the rest of a sentence about the path, or undefined. What does not exist has no kind.
 */
export type Admit = (deed: Deed, inside: readonly string[], kind: Kind | undefined) => string | undefined;

export function assertAdmitted(
  admit: Admit | undefined,
  deed: Deed,
  inside: readonly string[],
  kind: Kind | undefined,
): void {
  const why = admit?.(deed, inside, kind);
  if (why !== undefined) throw new SafeRootError('NOT_ADMITTED', { what: why, inside: asPath(inside) });
}

export function asPath(inside: readonly string[]): string {
  return inside.length === 0 ? '.' : inside.join('/');
}
