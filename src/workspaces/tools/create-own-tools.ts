import { AmbitError } from '../../errors.ts';
import { StaleSessionError } from '../../sessions/grants.ts';
import { sessionOf } from '../../sessions/session.ts';
import type { Sessions } from '../../sessions/sessions.ts';
import type { Team } from '../../sessions/teams/open-team.ts';
import { type ChildToolParts, type CreateChild, sessionCreate } from '../../sessions/tools/child-tools.ts';
import { messageTools, type OnMessageSent } from '../../sessions/tools/message-tools.ts';
import { createSessionReach, type SessionResolution } from '../../sessions/tools/reach.ts';
import { type OnReported, reportTools } from '../../sessions/tools/report-tools.ts';
import { sessionSearch } from '../../sessions/tools/session-search.ts';
import { type ReadPolicyContext, sessionContext, sessionTools } from '../../sessions/tools/session-tools.ts';
import { stateTools } from '../../sessions/tools/state-tools.ts';
import type { Tool } from '../../sessions/tools/tool.ts';
import { createToolset, type Toolset } from '../../sessions/tools/toolset.ts';
import { createPageCursors, type PageCursors } from '../../stores/page-cursors.ts';
import type { SessionStore } from '../../stores/store.ts';
import type { CodeIndexes } from '../codebase/code-indexes.ts';
import { createFileAccess, type FileAccess, type FileAccessParts } from './file-access.ts';
import { sessionCodebaseSearch } from './session-codebase-search.ts';
import { sessionEditFile } from './session-edit-file.ts';
import { sessionFileInfo } from './session-file-info.ts';
import { sessionFileSearch } from './session-file-search.ts';
import { sessionGrepSearch } from './session-grep-search.ts';
import { sessionListDir } from './session-list-dir.ts';
import { sessionDeleteFile, sessionMoveFile } from './session-move-file.ts';
import { sessionReadFile } from './session-read-file.ts';

const maxTries = 4;

export interface SessionToolsOptions {
  readonly sessions: Pick<Sessions, 'end' | 'get' | 'load' | 'acquire' | 'usage'>;
  readonly store: SessionStore;
  /** Absent where sessions have no files. */
  readonly files?: FileAccessParts | undefined;
  /** Absent where there are no policies. */
  readonly contextOf?: ReadPolicyContext | undefined;
  /** Absent where agents get no tools for sessions and state, except `session_context`. */
  readonly teamwork?: Teamwork | undefined;
  /** Hears which session each reference in a call led to. */
  readonly onSessionResolution?: (resolution: SessionResolution) => void;
}

/** The parts of the tools by which sessions work together. */
export interface Teamwork {
  readonly team: Team;
  readonly createChild: CreateChild;
  /** Hears of messages and reports. */
  readonly onMessageSent?: OnMessageSent;
  readonly onReported?: OnReported;
}

/** Creates the tools by which an agent looks after its sessions, their state and their files. */
export function createOwnTools(options: SessionToolsOptions): Toolset {
  const { sessions, store, contextOf, teamwork } = options;
  const files = options.files && noteFiles(options.files, teamwork?.team);
  const reach = createSessionReach(store, options.onSessionResolution);
  const cursors = createPageCursors(store.documents);

  async function touchSession(id: string): Promise<void> {
    for (let tries = 0; tries < maxTries; tries++) {
      const session = sessions.get(id) ?? (await sessions.load(id));
      if (session === undefined) return;
      try {
        const grant = await sessions.acquire(session, false);
        grant.owner.release(grant, false, 0);
        return;
      } catch (error) {
        // The record was changed elsewhere, and the current one is loaded now.
        if (!(error instanceof StaleSessionError)) throw error;
      }
    }
    throw new AmbitError('SESSION_STALE');
  }

  const access = files === undefined ? undefined : createFileAccess(reach, files, touchSession);
  const contextTool = contextOf === undefined ? [] : [sessionContext(reach, contextOf)];
  const forSessions =
    teamwork === undefined
      ? contextTool
      : [
          ...sessionTools({ reach, sessions, cursors }),
          ...contextTool,
          ...stateTools({ reach, state: store.state, cursors, ...teamwork.team }),
          ...teamTools({ reach, endSession: sessions.end, ...teamwork }),
        ];
  const forFiles =
    access === undefined || files === undefined
      ? []
      : [...fileTools(access), ...searchTools(access, cursors, files.indexes)];
  const exactTools = [...contextTool, ...forFiles].map(({ definition }) => definition.name);
  return createToolset([...forSessions, ...forFiles], exactTools);
}

interface TeamToolParts extends Teamwork, Pick<ChildToolParts, 'reach' | 'endSession'> {}

/** The tools by which sessions work together. */
function teamTools({ reach, endSession, ...teamwork }: TeamToolParts): readonly Tool[] {
  const { team, createChild, onMessageSent, onReported } = teamwork;
  const { peers, messages, reports, index } = team;
  const onSent: OnMessageSent = (sent) => {
    index.noteMessage(sessionOf(sent.from), sent.text);
    index.noteMessage(sessionOf(sent.to), sent.text);
    onMessageSent?.(sent);
  };
  return [
    sessionCreate({ reach, reports, createChild, endSession }),
    ...messageTools({ reach, peers, messages, onSent }),
    sessionSearch(reach, peers, index),
    ...reportTools(reach, reports, onReported),
  ];
}

/** Notes the files that sessions use, so that the sessions are found by them. */
function noteFiles(files: FileAccessParts, team: Team | undefined): FileAccessParts {
  if (team === undefined) return files;
  return {
    ...files,
    onResolution(resolution) {
      files.onResolution(resolution);
      const { decision, resolved, sessionId, operation } = resolution;
      if (decision === 'allowed' && resolved !== undefined && notedOperations.has(operation))
        team.noteFile(sessionId, resolved);
    },
  };
}

/** The operations on files themselves. Searches and lists pass by many more. */
const notedOperations: ReadonlySet<string> = new Set(['open', 'write', 'remove', 'move', 'move-to']);

/** The tools that work on single files of a session's workspace. */
export function fileTools(access: FileAccess): readonly Tool[] {
  return [
    sessionReadFile(access),
    sessionEditFile(access),
    sessionDeleteFile(access),
    sessionMoveFile(access),
    sessionFileInfo(access),
  ];
}

/** The tools that list folders and search files of a session's workspace. */
export function searchTools(access: FileAccess, cursors: PageCursors, indexes: CodeIndexes): readonly Tool[] {
  return [
    sessionListDir(access, cursors),
    sessionFileSearch(access),
    sessionGrepSearch(access),
    sessionCodebaseSearch(access, indexes),
  ];
}
