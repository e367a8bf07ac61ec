import * as z from 'zod';
import { AmbitError } from '../../errors.ts';
import { invalidCursorError, type PageCursors } from '../../stores/page-cursors.ts';
import type { JsonValue } from '../../stores/record.ts';
import type {
  SessionStateStore,
  SetOptions,
  StateDeleted,
  StateKey,
  StateListOptions,
  StateWritten,
} from '../../stores/state.ts';
import type { Gone, StateLimits } from '../../stores/store.ts';
import { sessionGoneError } from '../session.ts';
import { authorOf, type SessionAuthor } from '../teams/messages.ts';
import { type AllowsToDirect, effectiveWorkspace } from '../teams/peers.ts';
import { findStatePlace, type StatePlace, type WorkspaceState } from '../teams/workspace-state.ts';
import { authorSchema } from './message-tools.ts';
import { type SessionReach, sessionNotFoundError } from './reach.ts';
import { assertJsonDepth, defineTool, sessionArgument, type Tool, type ToolCaller } from './tool.ts';

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
const scope = z
  .enum(['session', 'workspace'])
  .optional()
  .describe('"session" (default), or "workspace" for the state that your sessions in the workspace share.');
const author = authorSchema.optional().describe('The session that wrote it, in the state of a workspace.');

export interface StateToolsParts {
  readonly reach: SessionReach;
  readonly state: SessionStateStore;
  readonly workspaceState: WorkspaceState;
  readonly allowsToDirect: AllowsToDirect;
  readonly cursors: PageCursors;
}

interface ScopedArguments {
  readonly session?: string | undefined;
  readonly scope?: 'session' | 'workspace' | undefined;
}

type ScopedKey = StateKey & { readonly author?: SessionAuthor };

/** The state of one session or workspace. */
interface ScopedState {
  /** Tells states apart. */
  readonly owner: readonly string[];
  get(key: string): Promise<(ScopedKey & { readonly value: JsonValue }) | undefined>;
  set(key: string, value: JsonValue, options: SetOptions): Promise<StateWritten>;
  list(options: StateListOptions): Promise<{ readonly keys: readonly ScopedKey[]; readonly next: string | null }>;
  delete(key: string, options: { readonly expectedVersion?: number }): Promise<StateDeleted>;
  goneError(how: Gone): AmbitError;
}

/** The tools by which the calls of a session keep state for later calls. */
export function stateTools(parts: StateToolsParts): readonly Tool[] {
  const { reach, state: ofSessions, workspaceState, allowsToDirect, cursors } = parts;
  /** Chooses the state that a call means. */
  async function findState(args: ScopedArguments, caller: ToolCaller): Promise<ScopedState> {
    const record = await reach.find(args.session, caller);
    if (args.scope !== 'workspace') return stateOfSession(ofSessions, record.id, caller);
    const workspaceId = effectiveWorkspace(record, caller.session);
    if (workspaceId === undefined) throw new AmbitError('WORKSPACE_REQUIRED');
    const place = findStatePlace(record, workspaceId, allowsToDirect);
    if (place === undefined) {
      throw new AmbitError('REQUEST_INVALID', {
        what: 'Anonymous callers share no state.',
        hint: 'Keep the value in the state of the session: leave out "scope".',
      });
    }
    return stateOfWorkspace(workspaceState, place, authorOf(record));
  }

  return [
    defineTool({
      name: 'session_state_get',
      title: 'Read state of a session',
      description:
        'Reads the value stored under a key in the session or its workspace. If there is none, "found" is false and "version" is 0.',
      effect: 'reads',
      input: z.strictObject({ session: sessionArgument, scope, key }),
      output: z.strictObject({ key: z.string(), found: z.boolean(), value: z.unknown(), version, expiresAt, author }),
      async run(args, caller) {
        const entry = await (await findState(args, caller)).get(args.key);
        if (entry === undefined) return { key: args.key, found: false, value: null, version: 0, expiresAt: null };
        return { key: args.key, found: true, value: entry.value, ...versionOf(entry) };
      },
    }),
    defineTool({
      name: 'session_state_set',
      title: 'Write state of a session',
      description:
        'Stores a JSON value under a key in the session or its workspace, for later calls. With expectedVersion, the value is written only if the entry has not changed.',
      effect: 'writes',
      input: z.strictObject({
        session: sessionArgument,
        scope,
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
        assertJsonDepth(args.value);
        const state = await findState(args, caller);
        const written = await state.set(args.key, args.value as JsonValue, {
          ...(args.expectedVersion === undefined ? {} : { expectedVersion: args.expectedVersion }),
          ...(args.ttlSeconds === undefined ? {} : { ttlMs: args.ttlSeconds * 1000 }),
        });
        if (written.outcome === 'written') return { key: args.key, version: written.version };
        if (written.outcome === 'conflict') throw conflictError(written.version, args.expectedVersion);
        if (written.outcome === 'full') throw stateFullError(written.limit);
        throw state.goneError(written);
      },
    }),
    defineTool({
      name: 'session_state_list',
      title: 'List state of a session',
      description:
        'Lists the keys stored in the session or its workspace, sorted, with their versions but without values.',
      effect: 'reads',
      input: z.strictObject({
        session: sessionArgument,
        scope,
        prefix: z.string().max(256).optional().describe('Only keys that start with this prefix.'),
        cursor: z.string().min(1).max(2048).optional().describe('Value of "next" from the previous page.'),
        limit: z.number().int().min(1).max(maxKeys).optional().describe('Maximum number of keys. Default: 100.'),
      }),
      output: z.strictObject({
        keys: z.array(z.strictObject({ key: z.string(), version, bytes: z.number().int(), expiresAt, author })),
        next: z.string().nullable().describe('Cursor for the next page; null on the last page.'),
      }),
      async run({ prefix, cursor, limit, ...args }, caller) {
        const state = await findState(args, caller);
        const bindings = ['session_state_list', caller.session.id, ...state.owner, prefix ?? ''];
        const after = cursor === undefined ? undefined : await cursors.open(cursor, bindings);
        if (cursor !== undefined && after === undefined) throw invalidCursorError();
        const { keys, next: following } = await state.list({
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
      description: 'Deletes a key of the session or its workspace. "deleted" is false if the key did not exist.',
      effect: 'destroys',
      input: z.strictObject({ session: sessionArgument, scope, key, expectedVersion }),
      output: z.strictObject({ key: z.string(), deleted: z.boolean() }),
      async run(args, caller) {
        const state = await findState(args, caller);
        const { expectedVersion: expected } = args;
        const deleted = await state.delete(args.key, expected === undefined ? {} : { expectedVersion: expected });
        if (deleted.outcome === 'deleted') return { key: args.key, deleted: true };
        if (deleted.outcome === 'absent') return { key: args.key, deleted: false };
        if (deleted.outcome === 'conflict') throw conflictError(deleted.version, expected);
        throw state.goneError(deleted);
      },
    }),
  ];
}

/** The state of a session. */
function stateOfSession(state: SessionStateStore, id: string, caller: ToolCaller): ScopedState {
  return {
    owner: [id],
    get: (name) => state.get(id, name),
    set: (name, value, options) => state.set(id, name, value, options),
    list: (options) => state.list(id, options),
    delete: (name, options) => state.delete(id, name, options),
    goneError: (how) => stateGoneError(how, id, caller),
  };
}

/** The state of a workspace, which outlives its sessions. */
function stateOfWorkspace(state: WorkspaceState, place: StatePlace, by: SessionAuthor): ScopedState {
  return {
    owner: ['workspace', place.workspaceId, place.trustLevel ?? ''],
    get: (name) => state.get(place, name),
    set: (name, value, options) => state.set(place, name, value, { ...options, author: by }),
    list: (options) => state.list(place, options),
    delete: (name, options) => state.delete(place, name, options),
    goneError: () => sessionNotFoundError(),
  };
}

function versionOf({ version: number, expiresAt: at, author: by }: ScopedKey) {
  const until = at === null ? null : new Date(at).toISOString();
  return { version: number, expiresAt: until, ...(by === undefined ? {} : { author: by }) };
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
