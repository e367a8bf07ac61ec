import type { SessionFiles } from '../../workspaces/session-files.ts';
import type { ToolCaller } from '../tool.ts';

/** How a file tool comes to the files of the session that its caller names, or that the call belongs to. */
export interface FileAccess {
  in<T>(
    reference: string | undefined,
    caller: ToolCaller,
    tool: string,
    work: (files: SessionFiles) => Promise<T>,
  ): Promise<T>;
}
