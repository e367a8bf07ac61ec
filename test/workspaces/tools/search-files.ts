import { onTestFinished } from 'vitest';
import type { ToolCaller } from '../../../src/sessions/tools/tool.ts';
import { createToolset, type ToolResult } from '../../../src/sessions/tools/toolset.ts';
import { openMemoryStore } from '../../../src/stores/memory/memory-store.ts';
import { createPageCursors } from '../../../src/stores/page-cursors.ts';
import { createCodeIndexes } from '../../../src/workspaces/codebase/code-indexes.ts';
import type { SessionFiles } from '../../../src/workspaces/session-files.ts';
import { searchTools } from '../../../src/workspaces/tools/create-own-tools.ts';
import type { FileAccess } from '../../../src/workspaces/tools/file-access.ts';

export interface SearchTools {
  call(name: string, args?: Record<string, unknown>): Promise<ToolResult>;
  /** What is told as data; fails when it is refused. */
  data<T>(name: string, args?: Record<string, unknown>): Promise<T>;
}

/** The tools on given files; who calls is decided elsewhere. */
export function createSearchTools(files: SessionFiles): SearchTools {
  const cursors = createPageCursors(openMemoryStore().documents);
  const indexes = createCodeIndexes({ dataDir: undefined, log: { info() {}, warn() {} } });
  onTestFinished(() => indexes.close());
  const access: FileAccess = { withFiles: (_reference, _caller, _tool, work) => work(files) };
  const tools = createToolset(searchTools(access, cursors, indexes));
  const call = (name: string, args = {}) =>
    tools.call(`session_${name}`, { session: 'current', ...args }, { session: { id: 'one' } } as ToolCaller);
  return {
    call,
    async data<T>(name: string, args?: Record<string, unknown>) {
      const result = await call(name, args);
      if (result.isError) throw new Error(textOf(result));
      return result.structuredContent as T;
    },
  };
}

export function textOf({ content }: ToolResult): string {
  return content.map((block) => (block.type === 'text' ? block.text : '')).join('\n');
}
