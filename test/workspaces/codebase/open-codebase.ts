import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { onTestFinished } from 'vitest';
import { type CodeIndexesOptions, createCodeIndexes } from '../../../src/workspaces/codebase/code-indexes.ts';
import type { ConfiguredPaths } from '../../../src/workspaces/path-guard.ts';
import { type CodebaseResult, searchCodebase } from '../../../src/workspaces/tools/session-codebase-search.ts';
import { openFiles } from '../search/open-files.ts';

/** A folder that is searched by questions, for one test. */
export interface Codebase {
  readonly failures: unknown[];
  /** Reads all files, and then answers from the index. */
  ask(question: string, path?: string): Promise<CodebaseResult>;
  /** Answers with what there is now. */
  askAtOnce(question: string, path?: string): Promise<CodebaseResult>;
  /** The paths that an answer from the index names. */
  find(question: string, path?: string): Promise<string[]>;
  close(): Promise<void>;
}

/** Every search reads the folder again. */
const limits = { files: 50_000, textBytes: 256 * 1024 ** 2, refreshMs: 0 };

export type CodebaseOptions = Partial<CodeIndexesOptions> & { readonly paths?: Partial<ConfiguredPaths> };

export function openCodebase(folder: string, { paths, ...options }: CodebaseOptions = {}): Codebase {
  const failures: unknown[] = [];
  const log = { info() {}, warn: (_: string, fields?: object) => void failures.push(fields) };
  const indexes = createCodeIndexes({ dataDir: undefined, log, limits, ...options });
  const files = openFiles(folder, undefined, paths);
  // One folder with one set of rules has one index, however often it is opened.
  const place = { ...files.place, key: `${folder} ${JSON.stringify(paths)}`, folder };
  const askAtOnce = (question: string, path = '.') =>
    searchCodebase({ ...files, place }, indexes, { question, path, limit: 5 });
  onTestFinished(() => indexes.close());

  async function ask(question: string, path?: string): Promise<CodebaseResult> {
    await indexes.open(place).refresh(place.inBackground);
    return askAtOnce(question, path);
  }

  return {
    failures,
    ask,
    askAtOnce,
    find: async (question, path) => (await ask(question, path)).matches.map((match) => match.path),
    close: indexes.close,
  };
}

/** A folder with these files, for one test. */
export function makeTree(files: Readonly<Record<string, string | Uint8Array>>): string {
  const folder = mkdtempSync(join(tmpdir(), 'ambit-codebase-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), content);
  }
  return folder;
}
