import { type ErrorCode, isAmbitError } from '../errors.ts';
import { plainNames } from './saferoot/path-components.ts';

/** What was asked for, where it led inside the workspace, and what was decided: for the journal. */
export interface Resolution {
  readonly operation: string;
  readonly asked: string;
  /** Undefined where the way ended before it led anywhere. */
  readonly resolved: string | undefined;
  /** `failed`: nothing stood against it, but it could not be done. */
  readonly decision: 'allowed' | 'refused' | 'failed';
  /** Why it was not done. */
  readonly code: string | undefined;
  /** How many further paths the same call looked at in the same way. */
  readonly further?: number;
}

export interface Resolutions {
  /** Does one operation on one path, and tells of it. */
  of<T>(operation: string, asked: string, work: () => Promise<T>, resolved: (result: T) => string): Promise<T>;
  /** Tells how much more there was. */
  over(): void;
}

const refusing: ReadonlySet<string> = new Set<ErrorCode>([
  'FILE_TOO_LARGE',
  'PATH_INVALID',
  'PATH_PROTECTED',
  'PATH_VIOLATION',
  'WORKSPACE_FULL',
]);

/** A search refuses as many paths as there are closed ones; the journal need not hold them all. */
const mostRefusals = 100;

/**
 * Tells of each resolution of one call. A search looks at thousands of paths, all of them below one that was asked for:
 * the first of each kind is told, and how many came after it.
 */
export function tellResolutions(tell: (resolution: Resolution) => void): Resolutions {
  const first = new Map<string, { readonly told: Resolution; further: number }>();
  const looks = new Set(['list', 'stat', 'open']);
  let refusals = 0;

  function allowed(operation: string, asked: string, resolved: string): void {
    const before = looks.has(operation) ? first.get(operation) : undefined;
    if (before !== undefined) {
      before.further++;
      return;
    }
    const told: Resolution = { operation, asked, resolved, decision: 'allowed', code: undefined };
    first.set(operation, { told, further: 0 });
    tell(told);
  }

  return {
    async of(operation, asked, work, resolvedOf) {
      try {
        const result = await work();
        allowed(operation, asked, resolvedOf(result));
        return result;
      } catch (error) {
        const code = isAmbitError(error) ? error.code : 'INTERNAL';
        const decision = refusing.has(code) ? 'refused' : 'failed';
        if (refusals++ < mostRefusals)
          tell({ operation, asked, resolved: resolvedBefore(error, asked), decision, code });
        throw error;
      }
    },

    over() {
      for (const { told, further } of first.values()) if (further > 0) tell({ ...told, further });
    },
  };
}

/** Where a path led that was then refused. Never part of the message: the caller asked for something else. */
export interface LedTo {
  readonly asked: string;
  readonly resolved: string;
}

const ledToKey = Symbol('where the path led');

export function leadingTo<E extends Error>(error: E, way: LedTo): E {
  return Object.assign(error, { [ledToKey]: way });
}

export function ledTo(error: unknown): LedTo | undefined {
  return typeof error === 'object' && error !== null ? (error as { [ledToKey]?: LedTo })[ledToKey] : undefined;
}

/** A move has two paths, and is refused for one of them. */
function resolvedBefore(error: unknown, asked: string): string | undefined {
  const way = ledTo(error);
  const plain = (path: string) => plainNames(path).join('/');
  return way !== undefined && plain(way.asked) === plain(asked) ? way.resolved : undefined;
}
