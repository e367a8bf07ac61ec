// The files program, in a container of its own: it opens the volume and answers until its stdin closes.

import { isAmbitError } from '../../../errors.ts';
import { volumeFolder } from '../../../sandbox/common/confinement.ts';
import { getResolution } from '../../resolutions.ts';
import type { OpenedFile, WorkspaceBackend } from '../backend.ts';
import { openLocal } from '../local/open-local.ts';
import {
  createFrameReader,
  encodeFrame,
  type FilesRequest,
  type FilesSettings,
  type FrameHead,
  isFileCode,
  maxDocumentBytes,
  maxInlineBytes,
} from './files-protocol.ts';

interface FilesServer {
  maxBodyBytes(head: FrameHead): number;
  /** Never rejects, and answers each request once. */
  handle(head: FrameHead, body: Buffer): Promise<void>;
}

interface FilesResponse {
  readonly ok: FrameHead | object;
  readonly body?: Uint8Array;
}

const maxOpenFiles = 512;

interface OpenedRoot {
  readonly fileBytes: number;
  readonly files: WorkspaceBackend;
}

const server = createFilesServer(
  async (settings) => openLocal(volumeFolder, settings),
  (head, body) => {
    for (const part of encodeFrame(head, body)) process.stdout.write(part);
  },
);
const reader = createFrameReader({
  maxBodyBytes: server.maxBodyBytes,
  onFrame(head, body) {
    activeRequests++;
    void server.handle(head, body).finally(exitWhenIdle);
  },
});

let activeRequests = 0;
let isInputClosed = false;

/** Finishes running requests before the process exits. */
function exitWhenIdle(): void {
  if (--activeRequests === 0 && isInputClosed) process.exit(0);
}

process.title = 'ambit-files';
process.stdout.on('error', () => process.exit(1));
process.stdin.on('data', (chunk: Buffer) => reader.push(chunk));
process.stdin.on('end', () => {
  isInputClosed = true;
  if (activeRequests === 0) process.exit(0);
});

/** Serves requests with the backend that the client opened by `begin`. */
function createFilesServer(
  open: (settings: FilesSettings) => Promise<WorkspaceBackend>,
  send: (head: FrameHead, body?: Uint8Array) => void,
): FilesServer {
  const roots = new Map<number, OpenedRoot>();
  const openFiles = new Map<number, OpenedFile>();
  let lastRootId = 0;
  let lastFileId = 0;

  async function openFile(files: WorkspaceBackend, path: string): Promise<FilesResponse> {
    if (openFiles.size >= maxOpenFiles) throw new Error('Too many files are open.');
    const file = await files.open(path);
    try {
      const body = await file.read(0, maxInlineBytes);
      if (body.length === maxInlineBytes) {
        openFiles.set(++lastFileId, file);
        return { ok: { facts: file.facts, file: lastFileId }, body };
      }
      await file.close();
      return { ok: { facts: file.facts }, body };
    } catch (error) {
      await file.close();
      throw error;
    }
  }

  function findRoot(root: number): OpenedRoot {
    const found = roots.get(root);
    if (found === undefined) throw new Error('Nothing was begun.');
    return found;
  }

  function findOpenFile(number: number): OpenedFile {
    const file = openFiles.get(number);
    if (file === undefined) throw new Error('No such file is open.');
    return file;
  }

  async function handleRequest(request: FilesRequest, body: Buffer): Promise<FilesResponse> {
    if (request.do === 'begin') {
      const settings = JSON.parse(body.toString('utf8')) as FilesSettings;
      const files = await open(settings);
      roots.set(++lastRootId, { files, fileBytes: settings.fileBytes });
      return { ok: { root: lastRootId } };
    }
    const { files } = findRoot(request.root);
    switch (request.do) {
      case 'finish':
        roots.delete(request.root);
        await files.close();
        return { ok: {} };
      case 'stat':
        return { ok: await files.stat(request.path, request.options) };
      case 'open':
        return openFile(files, request.path);
      case 'read':
        return { ok: {}, body: await findOpenFile(request.file).read(request.offset, request.length) };
      case 'close': {
        const file = findOpenFile(request.file);
        openFiles.delete(request.file);
        await file.close();
        return { ok: {} };
      }
      case 'write':
        return { ok: await files.write(request.path, body, request.options) };
      case 'mayWrite':
        return { ok: await files.mayWrite(request.path, request.options) };
      case 'makeFolder':
        return { ok: await files.makeFolder(request.path) };
      case 'remove':
        return { ok: await files.remove(request.path, request.options) };
      case 'move':
        return { ok: await files.move(request.from, request.to, request.options) };
      case 'list': {
        const { path, more, entries } = await files.list(request.path, request.options);
        return { ok: { path, more }, body: Buffer.from(JSON.stringify(entries)) };
      }
    }
  }

  return {
    maxBodyBytes: (head) => (head['do'] === 'write' ? findRoot(head['root'] as number).fileBytes : maxDocumentBytes),
    async handle(head, body) {
      try {
        const { ok, body: content } = await handleRequest(head as unknown as FilesRequest, body);
        if (content !== undefined && content.length > maxDocumentBytes) throw new Error('The answer is too large.');
        send({ id: head['id'], ok }, content);
      } catch (error) {
        send({ id: head['id'], error: describeError(error) });
      }
    },
  };
}

/** Hides unexpected errors: they could contain anything. */
function describeError(error: unknown): FrameHead {
  if (!isAmbitError(error) || !isFileCode(error.code)) return { code: 'FILE_FAILED' };
  const { code, message: what, hint, rule } = error;
  return { code, what, hint, rule, way: getResolution(error) };
}
