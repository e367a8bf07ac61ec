import * as z from 'zod';
import { AmbitError } from '../../errors.ts';
import { invalidCursorError, type PageCursors } from '../../stores/page-cursors.ts';
import type { JsonValue } from '../../stores/record.ts';
import type { SessionStateStore, StateKey } from '../../stores/state.ts';
import type { Gone, StateLimits } from '../../stores/store.ts';
import { sessionGoneError } from '../session.ts';
import { type SessionReach, sessionNotFoundError } from './reach.ts';
import { defineTool, sessionArgument, type Tool, type ToolCaller } from './tool.ts';

const maxDepth = 128;
const key = z.string().min(1).max(256).describe('Key of the entry, at most 256 bytes.');
const version = z.number().int();
const expectedVersion = z
  .number()
  .int()
  .min(0)
  .optional()
  .describe('Apply only if the entry has this version. 0 means that the key must not exist.');
const expiresAt = z.string().nullable().describe('ISO 8601; null if the entry is kept until the session ends.');
const maxKeys = 1000;

/** The tools by which the calls of a session keep state for later calls. */
export function stateTools(reach: SessionReach, state: SessionStateStore, cursors: PageCursors): readonly Tool[] {
  return [
    defineTool({
      name: 'session_state_get',
      title: 'Read state of a session',
      description:
        'Reads the value stored under a key in the session. If there is none, "found" is false and "version" is 0.',
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
      title: 'Write state of a session',
      description:
        'Stores a JSON value under a key in the session, for later calls. With expectedVersion, the value is written only if the entry has not changed.',
      effect: 'writes',
      input: z.strictObject({
        session: sessionArgument,
        key,
        value: z.unknown().describe('Any JSON value, at most 65536 bytes.'),
        expectedVersion,
        ttlSeconds: z
          .number()
          .int()
          .min(1)
          .max(31_536_000)
          .optional()
          .describe('Seconds until the entry is deleted. Default: when the session ends.'),
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
      title: 'List state of a session',
      description: 'Lists the keys stored in the session, sorted, with their versions but without values.',
      effect: 'reads',
      input: z.strictObject({
        session: sessionArgument,
        prefix: z.string().max(256).optional().describe('Only keys that start with this prefix.'),
        cursor: z.string().min(1).max(2048).optional().describe('Value of "next" from the previous page.'),
        limit: z.number().int().min(1).max(maxKeys).optional().describe('Maximum number of keys. Default: 100.'),
      }),
      output: z.strictObject({
        keys: z.array(z.strictObject({ key: z.string(), version, bytes: z.number().int(), expiresAt })),
        next: z.string().nullable().describe('Cursor for the next page; null on the last page.'),
      }),
      async run({ session, prefix, cursor, limit }, caller) {
        const { id } = await reach.find(session, caller);
        const bindings = ['session_state_list', caller.session.id, id, prefix ?? ''];
        const after = cursor === undefined ? undefined : await cursors.open(cursor, bindings);
        if (cursor !== undefined && after === undefined) throw invalidCursorError();
        const { keys, next: following } = await state.list(id, {
          ...(prefix === undefined ? {} : { prefix }),
          ...(after === undefined ? {} : { after }),
          ...(limit === undefined ? {} : { limit }),
        });
        const next = following === null ? null : await cursors.seal(following, bindings);
        return { keys: keys.map((each) => ({ key: each.key, bytes: each.bytes, ...versionOf(each) })), next };
      },
    }),
    defineTool({
      name: 'session_state_delete',
      title: 'Delete state of a session',
      description: 'Deletes a key of the session. "deleted" is false if the key did not exist.',
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
  const there = found === 0 ? 'there is no entry with that key' : `the entry has version ${found}`;
  return new AmbitError('STATE_CONFLICT', { what: `Version ${expected} was expected, but ${there}.` });
}

const fullReasons: Readonly<Record<keyof StateLimits, string>> = {
  valueBytes: 'The value is larger than allowed for one entry.',
  keys: 'The session has reached its limit of keys.',
  totalBytes: 'The state of the session would be larger than allowed.',
};
const fullRemedies: Readonly<Record<keyof StateLimits, string>> = {
  valueBytes: 'Store a smaller value, or split it over several keys.',
  keys: 'Delete keys that are no longer needed with session_state_delete, or set ttlSeconds for them.',
  totalBytes: 'Delete entries that are no longer needed with session_state_delete, or store smaller values.',
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
