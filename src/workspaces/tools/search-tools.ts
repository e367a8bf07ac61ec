import type { Tool } from '../../sessions/tools/tool.ts';
import type { FileAccess } from './file-access.ts';
import { sessionFileSearch } from './session-file-search.ts';
import { sessionGrepSearch } from './session-grep-search.ts';
import { sessionListDir } from './session-list-dir.ts';

/** How an agent finds its way in the files of a session. */
export function searchTools(access: FileAccess): readonly Tool[] {
  return [sessionListDir(access), sessionFileSearch(access), sessionGrepSearch(access)];
}
