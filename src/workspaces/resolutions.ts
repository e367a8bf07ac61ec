import { type ErrorCode, isAmbitError } from '../errors.ts';
import { splitIntoNames } from './saferoot/walk-path.ts';

/** The request, resolved path and decision of one file operation, for the journal. */
export interface FileResolution {
  readonly operation: string;
  readonly asked: string;
  /** Undefined when the path could not be resolved. */
  readonly resolved: string | undefined;
  /** `failed`: it was allowed, but could not be done. */
  readonly decision: 'allowed' | 'refused' | 'failed';
  /** The error code of a refusal or failure. */
  readonly code: string | undefined;
  /** The number of further paths that the same call used in the same way. */
  readonly further?: number;
}

export interface ResolutionRecorder {
  /** Runs one operation on one path, and records it. */
  run<T>(operation: string, asked: string, work: () => Promise<T>, resolved: (result: T) => string): Promise<T>;
  /** Records the number of further paths. */
  finish(): void;
}

const refusalCodes: ReadonlySet<string> = new Set<ErrorCode>([
  'FILE_TOO_LARGE',
  'PATH_INVALID',
  'PATH_PROTECTED',
  'PATH_VIOLATION',
  'WORKSPACE_FULL',
]);

/** The number of recorded refusals per call: a search may meet very many. */
const maxRefusals = 100;

/**
 * Records the resolutions of one call. A search uses thousands of paths below the requested one, so only the first of
 * each kind is recorded, with the number of further ones.
 */
export function createResolutionRecorder(record: (resolution: FileResolution) => void): ResolutionRecorder {
  const firstReads = new Map<string, { readonly first: FileResolution; further: number }>();
  const readOperations = new Set(['list', 'stat', 'open']);
  let refusals = 0;

  function recordAllowed(operation: string, asked: string, resolved: string): void {
    const before = readOperations.has(operation) ? firstReads.get(operation) : undefined;
    if (before !== undefined) {
      before.further++;
      return;
    }
    const first: FileResolution = { operation, asked, resolved, decision: 'allowed', code: undefined };
    firstReads.set(operation, { first, further: 0 });
    record(first);
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
      for (const { first, further } of firstReads.values()) if (further > 0) record({ ...first, further });
    },
  };
}

/** The resolved path of a refusal. It is never part of the message: the caller asked for another path. */
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

/** Returns the resolved path if the refusal is about this path: a move has two. */
function findResolved(error: unknown, asked: string): string | undefined {
  const resolution = getResolution(error);
  const plain = (path: string) => splitIntoNames(path).join('/');
  return resolution !== undefined && plain(resolution.asked) === plain(asked) ? resolution.resolved : undefined;
}
