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

/** Removes folders of sessions that ended while no gateway ran. */
export async function sweepSessionFolders(
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
    // An invalid id belongs to no session. An unavailable store decides nothing.
    return !isAmbitError(error) || error.code !== 'REQUEST_INVALID';
  }
}

/** Opens a session with its own folder, if it has one. Without the folder there is no session. */
export async function openSessionInFolder(
  sessions: Sessions,
  config: Config,
  folders: SessionFolders,
  draft: SessionDraft,
  bounds: OpeningBounds = {},
): Promise<OpenedSession> {
  const opened = await openSession(sessions, config, draft, bounds);
  if (!folders.hasOwnFolder(opened.session)) return opened;
  try {
    await folders.folderFor(opened.session);
    return opened;
  } catch (error) {
    await sessions.end(opened.session.id).catch(() => false);
    throw error;
  }
}
