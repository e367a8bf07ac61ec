import type { Config } from '../config/schema/schema.ts';
import { type OpenedSession, type OpeningBounds, openSession } from '../sessions/open-session.ts';
import type { SessionDraft } from '../sessions/session.ts';
import type { Sessions } from '../sessions/sessions.ts';
import type { SessionFolders } from './session-folders/session-folders.ts';

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
