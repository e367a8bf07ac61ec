import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createKeyedMutex } from '../../../src/lib/async/mutex.ts';
import type { ToolCaller } from '../../../src/sessions/tools/tool.ts';
import { createToolset, type ToolResult } from '../../../src/sessions/tools/toolset.ts';
import type { WorkspaceBackend } from '../../../src/workspaces/backends/backend.ts';
import { openLocal } from '../../../src/workspaces/backends/local/open-local.ts';
import { createPathRules } from '../../../src/workspaces/path-guard.ts';
import type { SessionFiles } from '../../../src/workspaces/session-files.ts';
import { fileTools } from '../../../src/workspaces/tools/create-own-tools.ts';
import { codeIn } from '../../sessions/tools/test-sessions.ts';
import { writeFiles } from '../search/make-folder.ts';

export interface TestFiles {
  readonly folder: string;
  readonly files: SessionFiles;
  call(tool: string, args: object): Promise<ToolResult>;
  /** The data of an answer that is no refusal. */
  data<T = Record<string, unknown>>(tool: string, args: object): Promise<T>;
  /** The code of a refusal and its words. */
  refused(tool: string, args: object): Promise<{ code: string | undefined; text: string }>;
  put(path: string, content: string | Uint8Array): void;
  get(path: string): string;
  close(): Promise<void>;
}

/** A workspace in a folder of its own, and the tools on it. */
export function createTestFiles(
  fileBytes = 16 * 1024 * 1024,
  folder = mkdtempSync(join(tmpdir(), 'ambit-files-')),
): TestFiles {
  const { close, ...backend } = openLocal(folder, { rules: createPathRules({ hide: [], keep: [], open: [] }) });
  const inTurn = createKeyedMutex();
  const place = {
    key: folder,
    folder,
    inBackground: <T>(work: (files: WorkspaceBackend) => Promise<T>) => work({ ...backend, close }),
  };
  const files: SessionFiles = { ...backend, fileBytes, place, runExclusive: (path, work) => inTurn(path, work) };
  const tools = createToolset(fileTools({ withFiles: (_reference, _caller, _tool, work) => work(files) }));
  const caller = { session: { id: 'some' }, principal: { kind: 'local', userId: 'ada' } } as unknown as ToolCaller;
  const call = (tool: string, args: object) => tools.call(`session_${tool}`, { session: 'current', ...args }, caller);

  return {
    folder,
    files,
    call,
    async data<T>(tool: string, args: object) {
      const result = await call(tool, args);
      if (result.isError) throw new Error(result.content[0].text);
      return result.structuredContent as T;
    },
    async refused(tool, args) {
      const result = await call(tool, args);
      return { code: codeIn(result), text: result.content[0].text };
    },
    put: (path, content) => writeFiles(folder, { [path]: content }),
    get: (path) => readFileSync(join(folder, path), 'utf8'),
    async close() {
      await close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
