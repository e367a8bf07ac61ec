import type { Sessions } from '../../sessions/sessions.ts';
import { createReach } from '../../sessions/tools/reach.ts';
import { type ContextOf, sessionContext } from '../../sessions/tools/session-context.ts';
import { sessionEnd } from '../../sessions/tools/session-end.ts';
import { sessionInfo } from '../../sessions/tools/session-info.ts';
import { sessionList } from '../../sessions/tools/session-list.ts';
import { stateTools } from '../../sessions/tools/state-tools.ts';
import type { Tool } from '../../sessions/tools/tool.ts';
import { createToolset, type Toolset } from '../../sessions/tools/toolset.ts';
import type { SessionStore } from '../../stores/store.ts';
import type { FileAccess } from './file-access.ts';
import { fileTools } from './file-tools.ts';
import { searchTools } from './search-tools.ts';
import { createFileAccess, type FilesForTools } from './session-file-access.ts';

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
