import { type ErrorCode, isAmbitError } from '../errors.ts';
import { splitIntoNames } from './saferoot/path-components.ts';

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

export interface ResolutionRecorder {
  /** Does one operation on one path, and tells of it. */
  run<T>(operation: string, asked: string, work: () => Promise<T>, resolved: (result: T) => string): Promise<T>;
  /** Tells how much more there was. */
  finish(): void;
}

const refusalCodes: ReadonlySet<string> = new Set<ErrorCode>([
  'FILE_TOO_LARGE',
  'PATH_INVALID',
  'PATH_PROTECTED',
  'PATH_VIOLATION',
  'WORKSPACE_FULL',
]);

/** A search refuses as many paths as there are closed ones; the journal need not hold them all. */
const maxRefusals = 100;

/**
 * Tells of each resolution of one call. A search looks at thousands of paths, all of them below one that was asked for:
 * the first of each kind is told, and how many came after it.
 */
export function createResolutionRecorder(record: (resolution: Resolution) => void): ResolutionRecorder {
  const firstReads = new Map<string, { readonly told: Resolution; further: number }>();
  const readOperations = new Set(['list', 'stat', 'open']);
  let refusals = 0;

  function recordAllowed(operation: string, asked: string, resolved: string): void {
    const before = readOperations.has(operation) ? firstReads.get(operation) : undefined;
    if (before !== undefined) {
      before.further++;
      return;
    }
    const told: Resolution = { operation, asked, resolved, decision: 'allowed', code: undefined };
    firstReads.set(operation, { told, further: 0 });
    record(told);
  }

  return {
    async run(operation, asked, work, resolvedOf) {
      try {
        const result = await work();
        recordAllowed(operation, asked, resolvedOf(result));
        return result;
      } catch (error) {
        const code = isAmbitError(error) ? error.code : 'INTERNAL';
        const decision = refusalCodes.has(code) ? 'refused' : 'failed';
        if (refusals++ < maxRefusals)
          record({ operation, asked, resolved: findResolved(error, asked), decision, code });
        throw error;
      }
    },

    finish() {
      for (const { told, further } of firstReads.values()) if (further > 0) record({ ...told, further });
    },
  };
}

/** Where a path led that was then refused. Never part of the message: the caller asked for something else. */
export interface PathResolution {
  readonly asked: string;
  readonly resolved: string;
}

const resolutionKey = Symbol('where the path led');

export function attachResolution<E extends Error>(error: E, resolution: PathResolution): E {
  return Object.assign(error, { [resolutionKey]: resolution });
}

export function getResolution(error: unknown): PathResolution | undefined {
  return typeof error === 'object' && error !== null
    ? (error as { [resolutionKey]?: PathResolution })[resolutionKey]
    : undefined;
}

/** A move has two paths, and is refused for one of them. */
function findResolved(error: unknown, asked: string): string | undefined {
  const resolution = getResolution(error);
  const plain = (path: string) => splitIntoNames(path).join('/');
  return resolution !== undefined && plain(resolution.asked) === plain(asked) ? resolution.resolved : undefined;
}
