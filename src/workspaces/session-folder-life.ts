import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Config } from '../config/schema/schema.ts';
import { isAmbitError } from '../errors.ts';
import { removeFolder } from '../lib/fs/remove-folder.ts';
import { type OpenedSession, type OpeningBounds, openSession } from '../sessions/open-session.ts';
import type { SessionDraft } from '../sessions/session.ts';
import type { Sessions } from '../sessions/sessions.ts';
import type { SessionStore } from '../stores/store.ts';
import type { SessionFolders } from './session-folders/session-folders.ts';

/** Folders of sessions that ended while nobody was looking. */
export async function sweepFolders(
  dataDir: string,
  store: SessionStore,
  folders: Pick<SessionFolders, 'sweep'>,
): Promise<void> {
  const runFolder = join(dataDir, 'run');
  const names = await readdir(runFolder).catch((): string[] => []);
  for (const name of names) if (!(await isLiveSession(store, name))) await removeFolder(join(runFolder, name));
  await folders.sweep((id) => isLiveSession(store, id));
}

async function isLiveSession(store: SessionStore, name: string): Promise<boolean> {
  try {
    return (await store.get(name)) !== undefined;
  } catch (error) {
    // Not a name of ours: whatever it is, no session will miss it. But a store that is away says nothing.
    return !isAmbitError(error) || error.code !== 'REQUEST_INVALID';
  }
}

/** Opens a session together with the folder it has for itself, if it has one: without that there is no session. */
export async function openInFolder(
  sessions: Sessions,
  config: Config,
  folders: SessionFolders,
  draft: SessionDraft,
  bounds: OpeningBounds = {},
): Promise<OpenedSession> {
  const opened = await openSession(sessions, config, draft, bounds);
  if (!folders.isApart(opened.session)) return opened;
  try {
    await folders.folderFor(opened.session);
    return opened;
  } catch (error) {
    await sessions.end(opened.session.id).catch(() => false);
    throw error;
  }
}
