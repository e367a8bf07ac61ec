import { createHash } from 'node:crypto';
import { AmbitError } from '../../errors.ts';
import type { Document } from '../../stores/documents.ts';
import { readAllDocuments } from '../../stores/documents.ts';
import type { JsonValue, SessionRecord } from '../../stores/record.ts';
import type { SessionStore } from '../../stores/store.ts';
import type { Session } from '../session.ts';
import { readResultSchema } from './result-schema.ts';
import type { ChangeWaiter } from './wait-for-change.ts';

/** The value that a child returns to its parent, if it has done so. */
export interface ChildResult {
  /** `ended` if the child is gone without a report. */
  readonly state: 'pending' | 'reported' | 'ended';
  readonly value: JsonValue;
}

/** A child as its parent remembers it, also after the child has ended. */
export interface KnownChild extends Pick<SessionRecord, 'id' | 'name' | 'agentId' | 'trustLevel'> {
  readonly parentId: string;
}

/** The values that children return to their parents. A parent can read them until it ends itself. */
export interface Reports {
  /** Refuses another child if the results of this parent take too much room. */
  assertRoom(parent: Pick<SessionRecord, 'id' | 'userId'>): Promise<void>;
  /** Remembers a new child, and the JSON Schema that its value must match. */
  expect(child: SessionRecord, schema: unknown): Promise<void>;
  /** Returns a value to the parent, once. */
  report(child: SessionRecord, value: JsonValue): Promise<void>;
  /** The result of a child; waits for it if it is pending. */
  read(child: KnownChild, userId: string, options: WaitForResult): Promise<ChildResult>;
  /** Lists the children that a session has created, also those that have ended. */
  children(parent: Pick<SessionRecord, 'id' | 'userId'>): Promise<KnownChild[]>;
  /** Forgets the children of an ended session; or of all sessions of a user. */
  forget(parent: Pick<Session, 'id' | 'userId'>): Promise<void>;
  forgetUser(userId: string): Promise<void>;
}

interface WaitForResult {
  readonly waitSeconds: number;
  readonly signal?: AbortSignal | undefined;
}

interface StoredReport extends KnownChild {
  readonly schema?: JsonValue;
  readonly report?: { readonly value: JsonValue };
}

export const maxResultBytes = 65_536;
/** The most children that one session can create in its life. */
const maxChildrenEver = 256;
/** The size of the results of one parent at which it can create no more children. */
const maxBytesOfAll = 4_194_304;
const pruneEveryMs = 600_000;
const maxTries = 8;

export function createReports(store: SessionStore, waiter: ChangeWaiter): Reports {
  const { documents } = store;
  const prunedAt = new Map<string, number>();

  async function get(
    child: KnownChild,
    userId: string,
  ): Promise<{ report: StoredReport; version: number } | undefined> {
    const found = await documents.get(collectionOf(userId), keyOf(child));
    return found && { report: parseReport(found), version: found.version };
  }

  /** Removes the results whose parents are gone: nobody was there to forget them when they ended. */
  async function pruneAbandoned(userId: string): Promise<void> {
    const collection = collectionOf(userId);
    const parents = new Map<string, boolean>();
    for (const { key, version } of await readAllDocuments(documents, collection)) {
      const parentId = key.split('/', 1)[0] as string;
      const isLive = parents.get(parentId) ?? (await store.get(parentId)) !== undefined;
      parents.set(parentId, isLive);
      if (!isLive) await documents.delete(collection, key, { expectedVersion: version });
    }
  }

  async function deleteAll(userId: string, prefix: string): Promise<void> {
    const collection = collectionOf(userId);
    for (const { key } of await readAllDocuments(documents, collection, prefix))
      await documents.delete(collection, key);
  }

  function pruneSometimes(userId: string): void {
    const now = performance.now();
    if (now - (prunedAt.get(userId) ?? Number.NEGATIVE_INFINITY) < pruneEveryMs) return;
    if (prunedAt.size > 10_000) prunedAt.clear();
    prunedAt.set(userId, now);
    // A failure is ignored: a later child tries again.
    void pruneAbandoned(userId).catch(() => {});
  }

  async function write(child: KnownChild, userId: string, report: StoredReport, expectedVersion: number) {
    const put = await documents.put(collectionOf(userId), keyOf(child), JSON.stringify(report), { expectedVersion });
    if (put.outcome === 'full') throw tooManyChildrenError();
    return put.outcome === 'written';
  }

  return {
    async assertRoom({ id, userId }) {
      const all = await readAllDocuments(documents, collectionOf(userId), `${id}/`);
      const bytes = all.reduce((sum, { text }) => sum + text.length, 0);
      if (all.length >= maxChildrenEver || bytes >= maxBytesOfAll) throw tooManyChildrenError();
    },

    async expect(child, schema) {
      const known = toKnownChild(child);
      pruneSometimes(child.userId);
      const stored = { ...known, ...(schema === undefined ? {} : { schema: schema as JsonValue }) };
      await write(known, child.userId, stored, 0);
    },

    async report(child, value) {
      const known = toKnownChild(child);
      assertSize(value);
      for (let tries = 0; tries < maxTries; tries++) {
        const found = await get(known, child.userId);
        if (found?.report.report !== undefined) {
          throw new AmbitError('REQUEST_INVALID', {
            what: 'This session has reported its value already.',
            hint: 'A session reports one value. Write to the parent with session_send_message.',
          });
        }
        const problem =
          found?.report.schema === undefined ? undefined : readResultSchema(found.report.schema).check(value);
        if (problem !== undefined) {
          throw new AmbitError('REQUEST_INVALID', {
            what: `The value does not match the schema of the parent: ${problem}`,
            hint: 'Correct the value and report it again.',
            rule: 'resultSchema',
          });
        }
        if (await write(known, child.userId, { ...known, report: { value } }, found?.version ?? 0)) return;
      }
      throw new AmbitError('SESSION_STALE');
    },

    read(child, userId, { waitSeconds, signal }) {
      const [collection, key] = [collectionOf(userId), keyOf(child)];
      return waiter.readUntil({
        async read(): Promise<ChildResult> {
          // Whether it lives comes first: what it reports before its end must not be missed.
          const isLive = (await store.get(child.id)) !== undefined;
          const report = (await get(child, userId))?.report.report;
          if (report !== undefined) return { state: 'reported', value: report.value };
          return { state: isLive ? 'pending' : 'ended', value: null };
        },
        isDone: ({ state }) => state !== 'pending',
        concerns: (change) =>
          (change.kind === 'document' && change.collection === collection && change.key === key) ||
          (change.kind === 'ended' && change.id === child.id),
        seconds: waitSeconds,
        signal,
      });
    },

    async children({ id, userId }) {
      return (await readAllDocuments(documents, collectionOf(userId), `${id}/`)).map((each) => parseReport(each));
    },

    forget: ({ id, userId }) => deleteAll(userId, `${id}/`),
    forgetUser: (userId) => deleteAll(userId, ''),
  };
}

function collectionOf(userId: string): string {
  return `reports-${createHash('sha256').update(userId).digest('hex').slice(0, 40)}`;
}

const keyOf = ({ parentId, id }: KnownChild): string => `${parentId}/${id}`;

function toKnownChild({ id, name, agentId, trustLevel, parentId }: SessionRecord): KnownChild {
  if (parentId !== null) return { id, name, agentId, trustLevel, parentId };
  throw new AmbitError('REQUEST_INVALID', {
    what: 'This session has no parent that it could report to.',
    hint: 'Only a session that was created by another one can report a value.',
  });
}

function parseReport({ text }: Document): StoredReport {
  return JSON.parse(text) as StoredReport;
}

function assertSize(value: JsonValue): void {
  const bytes = Buffer.byteLength(JSON.stringify(value));
  if (bytes <= maxResultBytes) return;
  throw new AmbitError('REQUEST_INVALID', {
    what: `The value has ${bytes} bytes as JSON; at most ${maxResultBytes} are allowed.`,
    hint: 'Report a summary, and write the rest to a file of the workspace.',
  });
}

function tooManyChildrenError(): AmbitError {
  return new AmbitError('SESSION_LIMIT', {
    what: `The session has created ${maxChildrenEver} children, or their results have become too large.`,
    hint: 'Continue with the children that there are, or ask the orchestrator for a new session.',
  });
}
