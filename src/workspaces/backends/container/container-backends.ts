import { AmbitError } from '../../../errors.ts';
import type { FoundFile, OpenedFile, WorkspaceBackend } from '../backend.ts';
import { tooLargeToWrite } from '../refusals.ts';
import type { Connection } from './connection.ts';
import {
  type FilesContainer,
  type FilesContainerOptions,
  type SharedContainer,
  shareContainer,
  startFilesContainer,
} from './files-container.ts';
import {
  documentBytes,
  type FilesRequest,
  type FilesSettings,
  type FilesWork,
  inlineBytes,
  pathLength,
  pieceBytes,
} from './requests.ts';
import * as answers from './response-schemas.ts';

interface Opened {
  readonly root: number;
  readonly facts: FoundFile;
  /** Its number at the other end; a file that is wholly here has none. */
  readonly file?: number;
}

const usualLimit = 10_000;

interface Begun {
  readonly container: FilesContainer;
  readonly root: Promise<number>;
}

interface Schema<T> {
  parse(value: unknown): T;
}

export interface ContainerBackends {
  /** Costs nothing until something is asked of it. Closed, it gives up its part of the container; the volume stays. */
  open(volume: string, settings: FilesSettings): WorkspaceBackend;
}

export type ContainerBackendsOptions = Omit<FilesContainerOptions, 'volume' | 'fileBytes'>;

/** Workspaces in volumes of podman or docker. */
export function createContainerBackends(options: ContainerBackendsOptions): ContainerBackends {
  const shared = new Map<string, SharedContainer>();
  return {
    open(volume, settings) {
      const { fileBytes } = settings;
      // How much memory a container may take depends on how large files are.
      const key = `${volume} ${fileBytes}`;
      const container =
        shared.get(key) ??
        shareContainer((onFailed) => startFilesContainer({ ...options, volume, fileBytes }, onFailed));
      shared.set(key, container);
      return openContainer(container, settings);
    },
  };
}

/**
 * Files in a volume of podman or docker. A program in a container opens them as a folder is opened here; it is started
 * when something is first asked, and started anew when it has died.
 */
function openContainer(shared: SharedContainer, settings: FilesSettings): WorkspaceBackend {
  const { fileBytes } = settings;
  let begun: Begun | undefined;
  let closed = false;
  shared.join();

  function begin(container: FilesContainer): Begun {
    const root = container.connection.ask({
      request: { do: 'begin' },
      body: Buffer.from(JSON.stringify(settings)),
      read: (ok) => answers.begun.parse(ok).root,
    });
    const fresh = { container, root };
    root.catch(() => {
      if (begun === fresh) begun = undefined;
    });
    return fresh;
  }

  async function reach(): Promise<{ readonly connection: Connection; readonly root: number }> {
    if (closed) throw new AmbitError('WORKSPACE_UNAVAILABLE', { what: 'The workspace has been closed.' });
    const container = await shared.reach();
    if (begun?.container !== container) begun = begin(container);
    return { connection: container.connection, root: await begun.root };
  }

  async function ask<T>(work: FilesWork, schema: Schema<T>, body?: Uint8Array): Promise<T> {
    const { connection, root } = await reach();
    return connection.ask({
      request: { ...work, root },
      read: (ok) => schema.parse(ok),
      ...(body === undefined ? {} : { body }),
    });
  }

  async function open(path: string): Promise<OpenedFile> {
    const { connection, root } = await reach();
    return connection.ask({
      request: { do: 'open', root, path: sent(path) },
      answerBytes: inlineBytes,
      read: (ok, first) => openedFileOf(connection, { root, ...answers.opened.parse(ok) }, first),
    });
  }

  /** Of a container that is gone, nothing is left to be finished. */
  async function finish(): Promise<void> {
    const root = await begun?.root.catch(() => undefined);
    if (begun === undefined || root === undefined) return;
    const { connection } = begun.container;
    await connection.ask({ request: { do: 'finish', root }, read: (ok) => answers.nothing.parse(ok) }).catch(() => {});
  }

  return {
    kind: 'container',
    stat: async (path, options = {}) => ask({ do: 'stat', path: sent(path), options }, answers.found),
    open,
    async write(path, content, how = {}) {
      if (content.byteLength > fileBytes) throw tooLargeToWrite(content.byteLength, fileBytes);
      return ask({ do: 'write', path: sent(path), options: how }, answers.written, content);
    },
    mayWrite: async (path, options = {}) => ask({ do: 'mayWrite', path: sent(path), options }, answers.resolved),
    makeFolder: async (path) => ask({ do: 'makeFolder', path: sent(path) }, answers.madeFolder),
    remove: async (path, options = {}) => ask({ do: 'remove', path: sent(path), options }, answers.removed),
    move: async (from, to, options = {}) => ask({ do: 'move', from: sent(from), to: sent(to), options }, answers.moved),
    async list(path, options = {}) {
      const { connection, root } = await reach();
      return listed(connection, { do: 'list', root, path: sent(path), options }, options.limit ?? usualLimit);
    },
    async close() {
      if (closed) return;
      closed = true;
      await finish();
      await shared.leave();
    },
  };
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

/** A file at the other end of a connection, and how it begins. It goes with the container: another knows nothing of it. */
export function openedFileOf(connection: Connection, { root, facts, file }: Opened, first: Buffer): OpenedFile {
  let closed = false;

  async function piece(file: number, offset: number, length: number): Promise<Buffer> {
    return connection.ask({
      request: { do: 'read', root, file, offset, length },
      answerBytes: length,
      read(ok, body) {
        answers.nothing.parse(ok);
        return body;
      },
    });
  }

  return {
    facts,
    async read(offset, length) {
      for (const value of [offset, length]) {
        if (!Number.isSafeInteger(value) || value < 0) throw new RangeError('expected a whole number, 0 or more');
      }
      if (file === undefined || offset + length <= first.length) return first.subarray(offset, offset + length);
      const pieces: Buffer[] = [];
      for (let left = length, at = offset; left > 0; ) {
        const wanted = Math.min(left, pieceBytes);
        const bytes = await piece(file, at, wanted);
        pieces.push(bytes);
        if (bytes.length < wanted) break;
        at += wanted;
        left -= wanted;
      }
      return pieces.length === 1 && pieces[0] !== undefined ? pieces[0] : Buffer.concat(pieces);
    },
    async close() {
      if (closed || file === undefined) return;
      closed = true;
      await connection
        .ask({ request: { do: 'close', root, file }, read: (ok) => answers.nothing.parse(ok) })
        .catch(() => {});
    },
  };
}
