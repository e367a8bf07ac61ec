import type { ToolCaller } from '../../sessions/tools/tool.ts';
import type { SessionFiles } from '../session-files.ts';

/** How a file tool comes to the files of the session that its caller names, or that the call belongs to. */
export interface FileAccess {
  in<T>(
    reference: string | undefined,
    caller: ToolCaller,
    tool: string,
    work: (files: SessionFiles) => Promise<T>,
  ): Promise<T>;
}
