import type { Tool } from '../../sessions/tools/tool.ts';
import type { FileAccess } from './file-access.ts';
import { sessionDeleteFile } from './session-delete-file.ts';
import { sessionEditFile } from './session-edit-file.ts';
import { sessionFileInfo } from './session-file-info.ts';
import { sessionMoveFile } from './session-move-file.ts';
import { sessionReadFile } from './session-read-file.ts';

/** The tools that work on single files of a session’s workspace. */
export function fileTools(access: FileAccess): readonly Tool[] {
  return [
    sessionReadFile(access),
    sessionEditFile(access),
    sessionDeleteFile(access),
    sessionMoveFile(access),
    sessionFileInfo(access),
  ];
}
