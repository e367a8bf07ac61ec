import type { FileKind } from './file-info.ts';
import { SafeRootError } from './saferoot-error.ts';

/** `read` covers looking and reading; `write` covers making, changing, moving and removing. */
export type AccessKind = 'read' | 'write';

/**
 * Called with the names that lead to an entry, links followed, while the entry is held and before anything is done to
 * it. Returns why access is refused, as the rest of a sentence about the path, or undefined. An entry that does not
 * exist has no kind.
 */
export type CheckAccess = (
  access: AccessKind,
  names: readonly string[],
  kind: FileKind | undefined,
) => string | undefined;

export function assertAccess(
  checkAccess: CheckAccess | undefined,
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
