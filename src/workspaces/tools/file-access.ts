import { createHash } from 'node:crypto';
import { AmbitError } from '../../errors.ts';
import { viewLike } from '../../sessions/narrowed-sessions.ts';
import { type Session, sessionOf } from '../../sessions/session.ts';
import type { SessionReach } from '../../sessions/tools/reach.ts';
import type { ToolCaller } from '../../sessions/tools/tool.ts';
import type { OpenedFile } from '../backends/backend.ts';
import type { CodeIndexes } from '../codebase/code-indexes.ts';
import type { FileResolution } from '../resolutions.ts';
import type { SessionFiles } from '../session-files.ts';
import type { Workspaces } from '../workspaces.ts';

/** Gives a file tool the files of the session that the caller names. */
export interface FileAccess {
  withFiles<T>(
    reference: string | undefined,
    caller: ToolCaller,
    tool: string,
    work: (files: SessionFiles) => Promise<T>,
  ): Promise<T>;
}

/** A path that a tool was given, the file it led to, and the decision about it. */
export interface ToolResolution extends FileResolution {
  readonly tool: string;
  readonly sessionId: string;
  readonly workspaceId: string | undefined;
  readonly correlationId: string | undefined;
}

/** Counts a call as use of a session, so that a session whose files are used does not expire. */
export type TouchSession = (sessionId: string) => Promise<void>;

export interface FileAccessParts {
  readonly workspaces: Pick<Workspaces, 'in'>;
  readonly onResolution: (resolution: ToolResolution) => void;
  readonly indexes: CodeIndexes;
}

export function createFileAccess(
  reach: SessionReach,
  { workspaces, onResolution }: Pick<FileAccessParts, 'workspaces' | 'onResolution'>,
  touchSession: TouchSession,
): FileAccess {
  async function findSession(reference: string | undefined, caller: ToolCaller): Promise<Session> {
    // The session of the call is known to be live, and has the workspace that its client selected.
    if (reference === 'current' || reference === caller.session.id) return caller.session;
    const record = sessionOf(await reach.find(reference, caller));
    if (record.id === caller.session.id) return viewLike(record, caller.session);
    await touchSession(record.id);
    return record;
  }

  return {
    async withFiles(reference, caller, tool, work) {
      const session = await findSession(reference, caller);
      // The client meant another workspace than that of the session.
      if (session.unavailableWorkspace !== undefined) throw new AmbitError('WORKSPACE_REQUIRED');
      const { id: sessionId, workspaceId } = session;
      const { correlationId } = caller;
      const record = (each: FileResolution) => onResolution({ ...each, tool, sessionId, workspaceId, correlationId });
      return workspaces.in(session, record, work);
    },
  };
}

/** Files up to this size are read whole: hashed, and their lines counted. Larger ones are read as far as asked. */
export const maxWholeBytes = 16 * 1024 * 1024;

/** A multiple of the code units of every encoding. */
const chunkBytes = 256 * 1024;

/** Reads the content from an offset on, in chunks. */
export async function* readChunks(file: OpenedFile, from = 0): AsyncGenerator<Uint8Array> {
  for (let at = from; ; ) {
    const piece = await file.read(at, chunkBytes);
    if (piece.length > 0) yield piece;
    if (piece.length < chunkBytes) return;
    at += piece.length;
  }
}

/** Smaller files are buffered rather than read again. */
const smallBytes = 64 * 1024;

/** Reads a small file once, so that all further reads see the same content. */
export async function bufferIfSmall(file: OpenedFile): Promise<OpenedFile> {
  if (file.facts.bytes >= smallBytes) return file;
  const content = await file.read(0, smallBytes);
  // The file may have grown.
  if (content.length === smallBytes) return file;
  return { ...file, read: async (offset, length) => content.subarray(offset, offset + length) };
}

/** Null for a file that is too large. */
export async function hashFile(file: OpenedFile): Promise<string | null> {
  if (file.facts.bytes > maxWholeBytes) return null;
  const hash = createHash('sha256');
  for await (const piece of readChunks(file)) hash.update(piece);
  return hash.digest('hex');
}
