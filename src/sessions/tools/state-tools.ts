import * as z from 'zod';
import { AmbitError } from '../../errors.ts';
import type { JsonValue } from '../../stores/record.ts';
import type { SessionStateStore, StateKey } from '../../stores/state.ts';
import type { Gone, StateLimits } from '../../stores/store.ts';
import { sessionGoneError } from '../session.ts';
import { type SessionReach, sessionNotFoundError } from './reach.ts';
import { defineTool, sessionArgument, type Tool, type ToolCaller } from './tool.ts';

const maxDepth = 128;
const key = z.string().min(1).max(256).describe('At most 256 bytes.');
const version = z.number().int();
const expectedVersion = z
  .number()
  .int()
  .min(0)
  .optional()
  .describe('Only when the entry has this version; 0 means that there must be none.');
const expiresAt = z.string().nullable().describe('ISO 8601; null when it lasts as long as the session.');
const maxKeys = 1000;

/** The tools by which the calls of a session keep state for later calls. */
export function stateTools(reach: SessionReach, state: SessionStateStore): readonly Tool[] {
  return [
    defineTool({
      name: 'session_state_get',
      title: 'Read state of a session',
      description:
        'The value kept under a key of the session. Where there is none, "found" is false and the version 0.',
      effect: 'reads',
      input: z.strictObject({ session: sessionArgument, key }),
      output: z.strictObject({ key: z.string(), found: z.boolean(), value: z.unknown(), version, expiresAt }),
      async run(args, caller) {
        const { id } = await reach.find(args.session, caller);
        const entry = await state.get(id, args.key);
        if (entry === undefined) return { key: args.key, found: false, value: null, version: 0, expiresAt: null };
        return { key: args.key, found: true, value: entry.value, ...versionOf(entry) };
      },
    }),
    defineTool({
      name: 'session_state_set',
      title: 'Keep state in a session',
      description:
        'Keeps a JSON value under a key of the session, for later calls. With expectedVersion it is written only when nobody else wrote meanwhile.',
      effect: 'writes',
      input: z.strictObject({
        session: sessionArgument,
        key,
        value: z.unknown().describe('Any JSON value, of at most 65536 bytes unless the operator says otherwise.'),
        expectedVersion,
        ttlSeconds: z
          .number()
          .int()
          .min(1)
          .max(31_536_000)
          .optional()
          .describe('How long it is kept; as long as the session unless told.'),
      }),
      output: z.strictObject({ key: z.string(), version }),
      async run(args, caller) {
        if (args.value === undefined) throw new AmbitError('REQUEST_INVALID', { what: 'The value is missing.' });
        assertDepth(args.value);
        const { id } = await reach.find(args.session, caller);
        const written = await state.set(id, args.key, args.value as JsonValue, {
          ...(args.expectedVersion === undefined ? {} : { expectedVersion: args.expectedVersion }),
          ...(args.ttlSeconds === undefined ? {} : { ttlMs: args.ttlSeconds * 1000 }),
        });
        if (written.outcome === 'written') return { key: args.key, version: written.version };
        if (written.outcome === 'conflict') throw conflictError(written.version, args.expectedVersion);
        if (written.outcome === 'full') throw stateFullError(written.limit);
        throw stateGoneError(written, id, caller);
      },
    }),
    defineTool({
      name: 'session_state_list',
      title: 'Keys of a session’s state',
      description: 'The keys under which the session keeps values, in order, with their versions; not the values.',
      effect: 'reads',
      input: z.strictObject({
        session: sessionArgument,
        prefix: z.string().max(256).optional().describe('Only keys that begin so.'),
        cursor: z.string().min(1).max(256).optional().describe('"next" of the page before.'),
        limit: z.number().int().min(1).max(maxKeys).optional().describe('At most this many; 100 unless told.'),
      }),
      output: z.strictObject({
        keys: z.array(z.strictObject({ key: z.string(), version, bytes: z.number().int(), expiresAt })),
        next: z.string().nullable().describe('The cursor of the next page; null when this is the last.'),
      }),
      async run({ session, prefix, cursor, limit }, caller) {
        const { id } = await reach.find(session, caller);
        const { keys, next } = await state.list(id, {
          ...(prefix === undefined ? {} : { prefix }),
          ...(cursor === undefined ? {} : { after: cursor }),
          ...(limit === undefined ? {} : { limit }),
        });
        return { keys: keys.map((each) => ({ key: each.key, bytes: each.bytes, ...versionOf(each) })), next };
      },
    }),
    defineTool({
      name: 'session_state_delete',
      title: 'Forget state of a session',
      description: 'Deletes what is kept under a key of the session. "deleted" is false when there was nothing.',
      effect: 'destroys',
      input: z.strictObject({ session: sessionArgument, key, expectedVersion }),
      output: z.strictObject({ key: z.string(), deleted: z.boolean() }),
      async run(args, caller) {
        const { id } = await reach.find(args.session, caller);
        const { expectedVersion: expected } = args;
        const deleted = await state.delete(id, args.key, expected === undefined ? {} : { expectedVersion: expected });
        if (deleted.outcome === 'deleted') return { key: args.key, deleted: true };
        if (deleted.outcome === 'absent') return { key: args.key, deleted: false };
        if (deleted.outcome === 'conflict') throw conflictError(deleted.version, expected);
        throw stateGoneError(deleted, id, caller);
      },
    }),
  ];
}

function versionOf({ version: number, expiresAt: at }: StateKey) {
  return { version: number, expiresAt: at === null ? null : new Date(at).toISOString() };
}

function conflictError(found: number, expected: number | undefined): AmbitError {
  const there = found === 0 ? 'nothing is kept under that key' : `the entry has version ${found}`;
  return new AmbitError('STATE_CONFLICT', { what: `Version ${expected} was expected, but ${there}.` });
}

const fullReasons: Readonly<Record<keyof StateLimits, string>> = {
  valueBytes: 'The value is larger than an entry may be.',
  keys: 'The session already has as many keys as it may have.',
  totalBytes: 'The state of the session would be larger than allowed.',
};
const fullRemedies: Readonly<Record<keyof StateLimits, string>> = {
  valueBytes: 'Keep a smaller value, or part it among several keys.',
  keys: 'Delete keys that are no longer needed with session_state_delete, or give them a ttlSeconds.',
  totalBytes: 'Delete what is no longer needed with session_state_delete, or keep smaller values.',
};

function stateFullError(limit: keyof StateLimits): AmbitError {
  return new AmbitError('STATE_FULL', { what: fullReasons[limit], hint: fullRemedies[limit] });
}

/** The caller may know why its own session is gone, but not why another one is. */
function stateGoneError(how: Gone, id: string, { session }: ToolCaller): AmbitError {
  if (id !== session.id || how.outcome === 'missing') return sessionNotFoundError();
  return sessionGoneError(how.outcome === 'expired' ? 'expired' : how.reason);
}

/** Refuses deeper values: serialising them could overflow the stack. */
function assertDepth(value: unknown): void {
  let level: unknown[] = [value];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > maxDepth) {
      throw new AmbitError('REQUEST_INVALID', { what: `The value is nested more than ${maxDepth} levels deep.` });
    }
    level = level.flatMap((each) => (typeof each === 'object' && each !== null ? Object.values(each) : []));
  }
}
