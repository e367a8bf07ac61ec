import { expect } from 'vitest';
import type { OpenedFile, WorkspaceBackend } from '../../../../src/workspaces/backends/backend.ts';
import type { PathRules } from '../../../../src/workspaces/path-guard.ts';

export const noRules: PathRules = { hidden: [], kept: [], open: [] };

export interface OpenOptions {
  readonly rules?: PathRules;
  readonly fileBytes?: number;
}

/** One workspace that can be opened more than once, each time with other rules. */
export interface SuiteWorkspace {
  open(options?: OpenOptions): Promise<WorkspaceBackend>;
  /** Makes a link in the workspace, where it can hold any; the folder it lies in is there. */
  readonly link?: (path: string, target: string) => Promise<void>;
  remove(): Promise<void>;
}

export interface Suite {
  readonly workspace: () => SuiteWorkspace;
  /** The workspace without rules. */
  readonly files: () => WorkspaceBackend;
  /** Opened for one test, and closed after it. */
  open(options: OpenOptions): Promise<WorkspaceBackend>;
  /** A folder that no other test uses; it exists. */
  folder(): Promise<string>;
  readonly links: boolean;
}

export const toBytes = (text: string): Uint8Array => new TextEncoder().encode(text);
export const toText = (content: Uint8Array): string => new TextDecoder().decode(content);

export async function readContent(files: Pick<WorkspaceBackend, 'open'>, path: string): Promise<string> {
  const file = await files.open(path);
  try {
    return toText(await readWhole(file));
  } finally {
    await file.close();
  }
}

export async function readWhole(file: OpenedFile): Promise<Uint8Array> {
  return file.read(0, file.facts.bytes);
}

/** The code of the refusal; what came back is no code. */
export async function refusalCode(work: Promise<unknown>): Promise<unknown> {
  return work.then(
    (result) => ({ came: result }),
    (error: { readonly code?: unknown }) => error.code ?? error,
  );
}

export async function refusalMessage(work: Promise<unknown>): Promise<string> {
  const error = await work.then(
    () => undefined,
    (reason: Error) => reason,
  );
  expect(error).toBeInstanceOf(Error);
  return (error as Error).message;
}

/** Everything below a folder, each with what it is. */
export async function listTree(files: WorkspaceBackend, folder: string): Promise<string[]> {
  const { entries } = await files.list(folder);
  const below = await Promise.all(
    entries.map(async ({ name, kind }) => {
      const path = folder === '.' ? name : `${folder}/${name}`;
      return kind === 'folder' ? [`${path}/`, ...(await listTree(files, path))] : [path];
    }),
  );
  return below.flat();
}
