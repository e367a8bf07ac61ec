import { standingAs } from '../../sessions/in-workspace.ts';
import { sessionOf } from '../../sessions/session.ts';
import type { Resolution } from '../../workspaces/resolutions.ts';
import type { Workspaces } from '../../workspaces/workspaces.ts';
import type { Reach } from '../reach.ts';
import type { FileAccess } from './file-access.ts';

/** One path that a tool was asked for, where it led, and what was decided. */
export interface ToldResolution extends Resolution {
  readonly tool: string;
  readonly sessionId: string;
  readonly workspaceId: string | undefined;
  /** The call it was part of. */
  readonly correlationId: string | undefined;
}

/** What the file tools stand on. */
export interface FilesForTools {
  readonly workspaces: Pick<Workspaces, 'in'>;
  readonly tell: (resolution: ToldResolution) => void;
}

export function createFileAccess(reach: Reach, { workspaces, tell }: FilesForTools): FileAccess {
  return {
    async in(reference, caller, tool, work) {
      const record = sessionOf(await reach.find(reference, caller));
      // Where the call belongs to this very session, it stands in the workspace that its client chose.
      const session = record.id === caller.session.id ? standingAs(record, caller.session) : record;
      const { id: sessionId, workspaceId } = session;
      const { correlationId } = caller;
      return workspaces.in(session, (each) => tell({ ...each, tool, sessionId, workspaceId, correlationId }), work);
    },
  };
}
