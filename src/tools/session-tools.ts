import type { Sessions } from '../sessions/sessions.ts';
import type { SessionStore } from '../stores/store.ts';
import type { FileAccess } from './files/file-access.ts';
import { fileTools } from './files/file-tools.ts';
import { searchTools } from './files/search-tools.ts';
import { createFileAccess, type FilesForTools } from './files/session-file-access.ts';
import { createReach } from './reach.ts';
import { type ContextOf, sessionContext } from './session-context.ts';
import { sessionEnd } from './session-end.ts';
import { sessionInfo } from './session-info.ts';
import { sessionList } from './session-list.ts';
import { stateTools } from './state-tools.ts';
import type { Tool } from './tool.ts';
import { createToolset, type Toolset } from './toolset.ts';

export interface SessionToolsOptions {
  readonly sessions: Pick<Sessions, 'end'>;
  readonly store: SessionStore;
  /** Absent where sessions have no files. */
  readonly files?: FilesForTools | undefined;
  /** Absent where there are no policies. */
  readonly contextOf?: ContextOf | undefined;
}

/** The tools by which an agent looks after its sessions, and keeps state from one call to the next. */
export function createSessionTools({ sessions, store, files, contextOf }: SessionToolsOptions): Toolset {
  const reach = createReach(store);
  return createToolset([
    sessionInfo(reach, store),
    sessionList(reach),
    sessionEnd(reach, sessions),
    ...(contextOf === undefined ? [] : [sessionContext(reach, contextOf)]),
    ...stateTools(reach, store.state),
    ...(files === undefined ? [] : toolsOfFiles(createFileAccess(reach, files))),
  ]);
}

function toolsOfFiles(access: FileAccess): readonly Tool[] {
  return [...fileTools(access), ...searchTools(access)];
}
