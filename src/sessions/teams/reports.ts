import { AmbitError } from '../../errors.ts';
import type { TrustLevel } from '../../rules/trust-level.ts';
import type { JsonValue, SessionRecord } from '../../stores/record.ts';
import type { StateWritten } from '../../stores/state.ts';
import type { SessionStore } from '../../stores/store.ts';
import { assertNoImitation } from '../check-fields.ts';
import { sessionGoneError } from '../session.ts';
import { readResultSchema } from './result-schema.ts';
import type { ChangeWaiter } from './wait-for-change.ts';

/** The value that a child returns to its parent, if it has done so. */
export interface ChildResult {
  /** `ended` if the child is gone without a report. */
  readonly state: 'pending' | 'reported' | 'ended';
  readonly value: JsonValue;
  /** The trust level of the child when it reported. */
  readonly trustLevel?: TrustLevel;
}

/** A child as its parent remembers it, also after the child has ended. */
export interface KnownChild extends Pick<SessionRecord, 'id' | 'name'> {
  readonly parentId: string;
}

/** The values that children return to their parents. A parent can read them until it ends itself. */
export interface Reports {
  /** Refuses another child if the parent remembers too many, or their results take too much room. */
  assertRoom(parentId: string): Promise<void>;
  /** Remembers a new child, and the JSON Schema that its value must match. */
  expect(child: SessionRecord, schema: unknown): Promise<void>;
  /** Returns a value to the parent, once. */
  report(child: SessionRecord, value: JsonValue): Promise<void>;
  /** The result of a child; waits for it if it is pending. */
  read(child: KnownChild, options: WaitForResult): Promise<ChildResult>;
  /** Lists the children that a session remembers, also those that have ended. */
  children(parentId: string): Promise<KnownChild[]>;
}

interface WaitForResult {
  /** The session that waits. */
  readonly by: Pick<SessionRecord, 'id' | 'userId'>;
  readonly waitSeconds: number;
  readonly signal?: AbortSignal | undefined;
  readonly onWait?: (() => void) | undefined;
}

interface StoredReport {
  readonly schema?: JsonValue;
  readonly report?: Required<Pick<ChildResult, 'value' | 'trustLevel'>>;
}

export const maxResultBytes = 65_536;
/** A parent creates no more children when it remembers so many, or their results have so many bytes. */
const maxChildrenEver = 200;
const maxBytesOfAll = 3_145_728;
const maxTries = 8;

export function createReports(store: SessionStore, waiter: ChangeWaiter): Reports {
  const { results } = store;

  async function get(child: KnownChild): Promise<{ report: StoredReport; version: number } | undefined> {
    const found = await results.get(child.parentId, keyOf(child));
    return found && { report: found.value as StoredReport, version: found.version };
  }

  function write(child: KnownChild, report: StoredReport, expectedVersion: number): Promise<StateWritten> {
    return results.set(child.parentId, keyOf(child), report as unknown as JsonValue, { expectedVersion });
  }

  return {
    async assertRoom(parentId) {
      const { keys } = await results.list(parentId, { limit: 1000 });
      const bytes = keys.reduce((sum, each) => sum + each.bytes, 0);
      if (keys.length >= maxChildrenEver || bytes >= maxBytesOfAll) throw tooManyChildrenError();
    },

    async expect(child, schema) {
      const written = await write(toKnownChild(child), schema === undefined ? {} : { schema: schema as JsonValue }, 0);
      if (written.outcome === 'full') throw tooManyChildrenError();
      if (written.outcome !== 'written') throw sessionGoneError('ended');
    },

    async report(child, value) {
      const known = toKnownChild(child);
      assertSize(value);
      for (let tries = 0; tries < maxTries; tries++) {
        const found = await get(known);
        if (found?.report.report !== undefined) throw reportedTwiceError();
        assertMatches(value, found?.report.schema);
        const written = await write(known, { report: { value, trustLevel: child.trustLevel } }, found?.version ?? 0);
        if (written.outcome === 'written') return;
        if (written.outcome === 'full') throw resultsFullError();
        if (written.outcome !== 'conflict') throw sessionGoneError('ended');
      }
      throw new AmbitError('SESSION_STALE');
    },

    read(child, { by, waitSeconds, signal, onWait }) {
      return waiter.readUntil({
        by,
        async read(): Promise<ChildResult> {
          // Whether it lives comes first: what it reports before its end must not be missed.
          const isLive = (await store.get(child.id)) !== undefined;
          const report = (await get(child))?.report.report;
          if (report !== undefined) return { state: 'reported', ...report };
          return { state: isLive ? 'pending' : 'ended', value: null };
        },
        isDone: ({ state }) => state !== 'pending',
        concerns: (change) =>
          (change.kind === 'result' && change.id === child.parentId) ||
          (change.kind === 'ended' && change.id === child.id),
        seconds: waitSeconds,
        signal,
        onWait,
      });
    },

    async children(parentId) {
      const { keys } = await results.list(parentId, { limit: 1000 });
      return keys.map(({ key }) => parseKey(parentId, key));
    },
  };
}

/** The key has everything that children are found by, so that no values need to be read for it. */
function keyOf({ id, name }: KnownChild): string {
  return name === null ? id : `${id} ${name}`;
}

function parseKey(parentId: string, key: string): KnownChild {
  const [id = '', name = null] = key.split(' ');
  return { id, name, parentId };
}

function toKnownChild({ id, name, parentId }: SessionRecord): KnownChild {
  if (parentId !== null) return { id, name, parentId };
  throw new AmbitError('REQUEST_INVALID', {
    what: 'This session has no parent that it could report to.',
    hint: 'Only a session that was created by another one can report a value.',
  });
}

function assertSize(value: JsonValue): void {
  const text = JSON.stringify(value);
  const bytes = Buffer.byteLength(text);
  assertNoImitation('value', text);
  if (bytes <= maxResultBytes) return;
  throw new AmbitError('REQUEST_INVALID', {
    what: `The value has ${bytes} bytes as JSON; at most ${maxResultBytes} are allowed.`,
    hint: 'Report a summary, and write the rest to a file of the workspace.',
  });
}

function assertMatches(value: JsonValue, schema: JsonValue | undefined): void {
  const problem = schema === undefined ? undefined : readResultSchema(schema).check(value);
  if (problem === undefined) return;
  throw new AmbitError('REQUEST_INVALID', {
    what: `The value does not match the schema of the parent: ${problem}`,
    hint: 'Correct the value and report it again.',
    rule: 'resultSchema',
  });
}

function reportedTwiceError(): AmbitError {
  return new AmbitError('REQUEST_INVALID', {
    what: 'This session has reported its value already.',
    hint: 'A session reports one value. Write to the parent with session_send_message.',
  });
}

function resultsFullError(): AmbitError {
  return new AmbitError('REQUEST_INVALID', {
    what: 'The results of all children of the parent take too much room.',
    hint: 'Report a smaller value.',
  });
}

function tooManyChildrenError(): AmbitError {
  return new AmbitError('SESSION_LIMIT', {
    what: `The session has created ${maxChildrenEver} children, or their results have become too large.`,
    hint: 'Continue with the children that there are, or ask the orchestrator for a new session.',
  });
}
