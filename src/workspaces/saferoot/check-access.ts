import type { FileKind } from './file-info.ts';
import { SafeRootError } from './saferoot-error.ts';

/** Looking at something or reading it, or making, changing, moving or removing it. */
export type AccessKind = 'read' | 'write';

/**
 * Asked with the names that lead to something, links followed, while it is held and before anything is done to it. The
 * answer is why it may not be, as the rest of a sentence about the path, or undefined. What does not exist has no kind.
 */
export type Admit = (access: AccessKind, names: readonly string[], kind: FileKind | undefined) => string | undefined;

export function assertAccess(
  checkAccess: Admit | undefined,
  access: AccessKind,
  names: readonly string[],
  kind: FileKind | undefined,
): void {
  const reason = checkAccess?.(access, names, kind);
  if (reason !== undefined) throw new SafeRootError('NOT_ADMITTED', { what: reason, resolved: joinNames(names) });
}

export function joinNames(names: readonly string[]): string {
  return names.length === 0 ? '.' : names.join('/');
}
