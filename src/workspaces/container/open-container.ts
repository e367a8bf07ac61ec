import { AmbitError } from '../../errors.ts';
import type { OpenedFile, WorkspaceBackend } from '../backend.ts';
import { tooLargeToWrite } from '../refusals.ts';
import * as answers from './answers.ts';
import type { Connection } from './connection.ts';
import { type FilesContainer, type FilesContainerOptions, startFilesContainer } from './files-container.ts';
import { openedFileOf } from './opened-file.ts';
import { documentBytes, type FilesRequest, inlineBytes, pathLength } from './requests.ts';

const usualLimit = 10_000;

/**
 * Files in a volume of podman or docker. A program in a container opens them as a folder is opened here; it is started
 * when something is first asked, started anew when it has died, and ended with `close`. The volume stays.
 */
export function openContainer(options: FilesContainerOptions): WorkspaceBackend {
  const { fileBytes } = options;
  let current: Promise<FilesContainer> | undefined;
  let closed = false;

  function reach(): Promise<FilesContainer> {
    if (closed) throw new AmbitError('WORKSPACE_UNAVAILABLE', { what: 'The workspace has been closed.' });
    if (current !== undefined) return current;
    const started = startFilesContainer(options);
    current = started;
    const forget = () => {
      if (current === started) current = undefined;
    };
    started.then(({ gone }) => gone.then(forget), forget);
    return started;
  }

  async function ask<T>(request: FilesRequest, schema: Schema<T>, body?: Uint8Array): Promise<T> {
    const { connection } = await reach();
    return connection.ask({ request, read: (ok) => schema.parse(ok), ...(body === undefined ? {} : { body }) });
  }

  async function open(path: string): Promise<OpenedFile> {
    const { connection } = await reach();
    return connection.ask({
      request: { do: 'open', path: sent(path) },
      answerBytes: inlineBytes,
      read: (ok, first) => openedFileOf(connection, answers.opened.parse(ok), first),
    });
  }

  return {
    kind: 'container',
    stat: async (path, options = {}) => ask({ do: 'stat', path: sent(path), options }, answers.found),
    open,
    async write(path, content, how = {}) {
      if (content.byteLength > fileBytes) throw tooLargeToWrite(content.byteLength, fileBytes);
      return ask({ do: 'write', path: sent(path), options: how }, answers.written, content);
    },
    makeFolder: async (path) => ask({ do: 'makeFolder', path: sent(path) }, answers.madeFolder),
    remove: async (path, options = {}) => ask({ do: 'remove', path: sent(path), options }, answers.removed),
    move: async (from, to, options = {}) => ask({ do: 'move', from: sent(from), to: sent(to), options }, answers.moved),
    async list(path, options = {}) {
      const { connection } = await reach();
      return listed(connection, { do: 'list', path: sent(path), options }, options.limit ?? usualLimit);
    },
    async close() {
      closed = true;
      const container = await current?.catch(() => undefined);
      await container?.end();
    },
  };
}

interface Schema<T> {
  parse(value: unknown): T;
}

function listed(connection: Connection, request: FilesRequest, limit: number) {
  return connection.ask({
    request,
    answerBytes: documentBytes,
    read(ok, body) {
      const { path, more } = answers.listed.parse(ok);
      const entries = answers.listedEntries.parse(JSON.parse(body.toString('utf8')));
      if (entries.length > limit) throw new Error('More entries than were asked for.');
      return { path, more, entries };
    },
  });
}

/** What is longer than any path is refused for that, at the other end as here, and need not be sent whole. */
function sent(path: string): string {
  return typeof path === 'string' ? path.slice(0, pathLength) : path;
}
