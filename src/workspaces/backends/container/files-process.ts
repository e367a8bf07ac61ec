// The program beside the files, in a container of its own: it opens the volume and answers until its stdin closes.

import { isAmbitError } from '../../../errors.ts';
import { volumeFolder } from '../../../sandbox/container/volume-folder.ts';
import { ledTo } from '../../resolutions.ts';
import type { OpenedFile, WorkspaceBackend } from '../backend.ts';
import { openLocal } from '../local/open-local.ts';
import { createFrameReader, frameOf, type Head } from './frames.ts';
import { documentBytes, type FilesRequest, type FilesSettings, inlineBytes, isFileCode } from './requests.ts';

interface FilesServer {
  bodyBytes(head: Head): number;
  /** Never rejects; each is answered once. */
  take(head: Head, body: Buffer): Promise<void>;
}

interface Answer {
  readonly ok: Head | object;
  readonly body?: Uint8Array;
}

const mostOpen = 512;

interface Begun {
  readonly fileBytes: number;
  readonly files: WorkspaceBackend;
}

const server = createFilesServer(
  async (settings) => openLocal(volumeFolder, settings),
  (head, body) => {
    for (const part of frameOf(head, body)) process.stdout.write(part);
  },
);
const reader = createFrameReader({
  bodyBytes: server.bodyBytes,
  onFrame(head, body) {
    underWay++;
    void server.take(head, body).finally(leaveWhenDone);
  },
});

let underWay = 0;
let isOver = false;

/** What has been begun is done to its end. */
function leaveWhenDone(): void {
  if (--underWay === 0 && isOver) process.exit(0);
}

process.title = 'ambit-files';
process.stdout.on('error', () => process.exit(1));
process.stdin.on('data', (chunk: Buffer) => reader.push(chunk));
process.stdin.on('end', () => {
  isOver = true;
  if (underWay === 0) process.exit(0);
});

/** The side of the files: what is asked is done on a backend that is opened as whoever asks has begun it. */
function createFilesServer(
  open: (settings: FilesSettings) => Promise<WorkspaceBackend>,
  send: (head: Head, body?: Uint8Array) => void,
): FilesServer {
  const begun = new Map<number, Begun>();
  const opened = new Map<number, OpenedFile>();
  let lastBegun = 0;
  let lastOpened = 0;

  async function openFile(files: WorkspaceBackend, path: string): Promise<Answer> {
    if (opened.size >= mostOpen) throw new Error('Too many files are open.');
    const file = await files.open(path);
    try {
      const body = await file.read(0, inlineBytes);
      if (body.length === inlineBytes) {
        opened.set(++lastOpened, file);
        return { ok: { facts: file.facts, file: lastOpened }, body };
      }
      await file.close();
      return { ok: { facts: file.facts }, body };
    } catch (error) {
      await file.close();
      throw error;
    }
  }

  function begunAs(root: number): Begun {
    const found = begun.get(root);
    if (found === undefined) throw new Error('Nothing was begun.');
    return found;
  }

  function openedAs(number: number): OpenedFile {
    const file = opened.get(number);
    if (file === undefined) throw new Error('No such file is open.');
    return file;
  }

  async function done(request: FilesRequest, body: Buffer): Promise<Answer> {
    if (request.do === 'begin') {
      const settings = JSON.parse(body.toString('utf8')) as FilesSettings;
      const files = await open(settings);
      begun.set(++lastBegun, { files, fileBytes: settings.fileBytes });
      return { ok: { root: lastBegun } };
    }
    const { files } = begunAs(request.root);
    switch (request.do) {
      case 'finish':
        begun.delete(request.root);
        await files.close();
        return { ok: {} };
      case 'stat':
        return { ok: await files.stat(request.path, request.options) };
      case 'open':
        return openFile(files, request.path);
      case 'read':
        return { ok: {}, body: await openedAs(request.file).read(request.offset, request.length) };
      case 'close': {
        const file = openedAs(request.file);
        opened.delete(request.file);
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
    bodyBytes: (head) => (head['do'] === 'write' ? begunAs(head['root'] as number).fileBytes : documentBytes),
    async take(head, body) {
      try {
        const { ok, body: content } = await done(head as unknown as FilesRequest, body);
        if (content !== undefined && content.length > documentBytes) throw new Error('That is more than can be told.');
        send({ id: head['id'], ok }, content);
      } catch (error) {
        send({ id: head['id'], error: told(error) });
      }
    },
  };
}

/** What nobody foresaw is not told: it could quote anything. */
function told(error: unknown): Head {
  if (!isAmbitError(error) || !isFileCode(error.code)) return { code: 'FILE_FAILED' };
  const { code, message: what, hint, rule } = error;
  return { code, what, hint, rule, way: ledTo(error) };
}
