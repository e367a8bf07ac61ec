import { AmbitError } from '../../errors.ts';
import {
  type AnnouncedWorkspace,
  contradictory,
  createWorkspaceReader,
  readChosenSession,
  type SelectingRequest,
  sessionKeys,
} from '../../protocol/client-selection.ts';
import { readShape } from '../../protocol/json/scan.ts';
import { type IncomingCall, isObject } from '../sdk/call.ts';
import type { Connection } from './connections.ts';

/** The session and workspace that a client names. They select among those the caller has and grant nothing. */
export interface ClientSelection {
  readonly sessionId: string | undefined;
  /** A host's own name for the conversation. */
  readonly hint: string | undefined;
  readonly announced: string | undefined;
}

export interface SelectionReader {
  readAnnounced(meta: unknown): AnnouncedWorkspace;
  /** Throws if the request contradicts itself. */
  read(request: { readonly call: Pick<IncomingCall, 'meta'> }, connection: Connection | undefined): ClientSelection;
}

/** The selection of a client that names nothing. */
export const noSelection: ClientSelection = Object.freeze({
  sessionId: undefined,
  hint: undefined,
  announced: undefined,
});
const keyPattern = /^[A-Za-z0-9][A-Za-z0-9._/-]{0,63}$/;

/** Creates a reader of `_meta`, with the code of the gateway. */
export function createSelectionReader(keys: readonly string[]): SelectionReader {
  const odd = keys.find((key) => typeof key !== 'string' || !keyPattern.test(key));
  if (odd !== undefined) {
    throw new AmbitError('CONFIG_INVALID', { what: `"${String(odd).slice(0, 64)}" is not valid in "announceKeys".` });
  }
  const readWorkspace = createWorkspaceReader(keys);
  const readAnnounced = (meta: unknown) => (isObject(meta) ? readWorkspace(pickMembers(meta, keys)) : undefined);
  return {
    readAnnounced,
    read({ call: { meta } }, connection) {
      const isHandshake = connection?.handshakeId !== undefined;
      const announced = isHandshake ? connection.announced : readAnnounced(meta);
      if (announced === contradictory) {
        throw new AmbitError('REQUEST_INVALID', {
          what: 'The request announces more than one workspace.',
          hint: 'Announce one workspace, in one way.',
        });
      }
      if (!isObject(meta)) return announced === undefined ? noSelection : { ...noSelection, announced };
      const chosen = readChosenSession(pickMembers(meta, keys));
      if (chosen === undefined) {
        throw new AmbitError('REQUEST_INVALID', { what: '_meta["ambit/use-session"] must be the id of one session.' });
      }
      return { sessionId: chosen.id, hint: chosen.hint, announced };
    },
  };
}

/** Writes the members that select something, as the gateway reads them. All others may be large and are left out. */
function pickMembers(meta: Readonly<Record<string, unknown>>, keys: readonly string[]): SelectingRequest {
  const picked: Record<string, unknown> = {};
  for (const key of keys) {
    const holder = Object.hasOwn(meta, key) ? meta[key] : undefined;
    if (isObject(holder)) picked[key] = { workspace: toScalar(holder, 'workspace') };
  }
  for (const key of [...keys.map((each) => `${each}.workspace`), ...sessionKeys]) picked[key] = toScalar(meta, key);
  const bytes = Buffer.from(JSON.stringify(picked));
  return {
    bytes,
    meta: readShape(bytes, { key: '_meta', keyStart: 0, start: 0, end: bytes.length, shape: undefined }),
  };
}

/** Returns a member; null in place of an object, whose content says nothing. */
function toScalar(holder: Readonly<Record<string, unknown>>, key: string): unknown {
  const value = Object.hasOwn(holder, key) ? holder[key] : undefined;
  return typeof value === 'object' ? null : value;
}
