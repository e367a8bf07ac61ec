import { join } from 'node:path';
import { AmbitError } from '../../../errors.ts';
import { removeFolder } from '../../../lib/fs/remove-folder.ts';
import type { Log } from '../../../observability/log/log.ts';
import { createTmpRoot, sweepLeftovers } from '../../../sandbox/common/sweep-leftovers.ts';
import { createContainerRunner } from '../../../sandbox/container/container.ts';
import { createReaper } from '../../../sandbox/reaper/reaper.ts';
import { assertByteRange } from '../../saferoot/read.ts';
import type { FoundFile, OpenedFile, WorkspaceBackend } from '../backend.ts';
import { tooLargeError } from '../refusals.ts';
import type { FilesConnection } from './files-container.ts';
import {
  createSharedContainer,
  type FilesContainer,
  type FilesContainerOptions,
  type SharedContainer,
  startContainer,
} from './files-container.ts';
import {
  type FilesRequest,
  type FilesSettings,
  maxDocumentBytes,
  maxInlineBytes,
  maxPathLength,
  maxPieceBytes,
  type RootRequest,
} from './files-protocol.ts';
import * as schemas from './response-schemas.ts';

interface RemoteFile {
  readonly root: number;
  readonly facts: FoundFile;
  /** The number of the file at the other end; a file sent whole has none. */
  readonly file?: number;
}

const defaultListLimit = 10_000;

interface ContainerRoot {
  readonly container: FilesContainer;
  readonly root: Promise<number>;
}

interface ResponseSchema<T> {
  parse(value: unknown): T;
}

export interface ContainerBackends {
  /** Starts nothing before the first call. Closing releases the container; the volume stays. */
  open(volume: string, settings: FilesSettings): WorkspaceBackend;
}

export type ContainerBackendsOptions = Omit<FilesContainerOptions, 'volume' | 'fileBytes'>;

export function createContainerBackends(options: ContainerBackendsOptions): ContainerBackends {
  const shared = new Map<string, SharedContainer>();
  return {
    open(volume, settings) {
      const { fileBytes } = settings;
      // The memory of a container depends on the largest file.
      const key = `${volume} ${fileBytes}`;
      const container =
        shared.get(key) ??
        createSharedContainer((onFailed) => startContainer({ ...options, volume, fileBytes }, onFailed));
      shared.set(key, container);
      return createContainerBackend(container, settings);
    },
  };
}

/** Container backends with all that they need, for programs without a gateway. */
export interface StandaloneContainers {
  open(volume: string, settings: Pick<FilesSettings, 'rules'> & Partial<FilesSettings>): WorkspaceBackend;
  /** Ends the containers; the volumes stay. */
  close(): Promise<void>;
}

const defaultFileBytes = 16 * 1024 * 1024;

/** Opens container backends in a private folder. What a killed process left there is removed first. */
export async function openContainerBackends(options: {
  readonly dataDir: string;
  readonly log?: Log | undefined;
}): Promise<StandaloneContainers> {
  const tmpParent = join(options.dataDir, 'tmp');
  await sweepLeftovers(tmpParent);
  const tmpRoot = await createTmpRoot(tmpParent);
  const reaper = createReaper({ tmpRoot });
  const log = options.log ?? { info() {}, warn() {} };
  const backends = createContainerBackends({ runner: createContainerRunner({ reaper, tmpRoot }), tmpRoot, log });
  const opened = new Set<WorkspaceBackend>();
  return {
    open(volume, { rules, durable = false, fileBytes = defaultFileBytes }) {
      if (!volumePattern.test(volume)) {
        throw new AmbitError('REQUEST_INVALID', {
          what: 'The name of a volume has letters, digits, ".", "_" and "-".',
        });
      }
      const backend = backends.open(volume, { rules, durable, fileBytes });
      opened.add(backend);
      return backend;
    },
    async close() {
      await Promise.all([...opened].map((backend) => backend.close()));
      await reaper.close();
      await removeFolder(tmpRoot);
    },
  };
}

const volumePattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;

/**
 * Keeps files in a volume. A program in a container opens it as a local folder is opened here. It is started on the
 * first call, and again after it has died.
 */
function createContainerBackend(shared: SharedContainer, settings: FilesSettings): WorkspaceBackend {
  const { fileBytes } = settings;
  let current: ContainerRoot | undefined;
  let isClosed = false;
  shared.join();

  function beginRoot(container: FilesContainer): ContainerRoot {
    const root = container.connection.ask({
      request: { do: 'begin' },
      body: Buffer.from(JSON.stringify(settings)),
      parse: (ok) => schemas.begun.parse(ok).root,
    });
    const fresh = { container, root };
    root.catch(() => {
      if (current === fresh) current = undefined;
    });
    return fresh;
  }

  async function connect(): Promise<{ readonly connection: FilesConnection; readonly root: number }> {
    if (isClosed) throw new AmbitError('WORKSPACE_UNAVAILABLE', { what: 'The workspace has been closed.' });
    const container = await shared.getRunning();
    if (current?.container !== container) current = beginRoot(container);
    return { connection: container.connection, root: await current.root };
  }

  async function ask<T>(work: RootRequest, schema: ResponseSchema<T>, body?: Uint8Array): Promise<T> {
    const { connection, root } = await connect();
    return connection.ask({
      request: { ...work, root },
      parse: (ok) => schema.parse(ok),
      ...(body === undefined ? {} : { body }),
    });
  }

  async function open(path: string): Promise<OpenedFile> {
    const { connection, root } = await connect();
    return connection.ask({
      request: { do: 'open', root, path: cutPath(path) },
      maxBodyBytes: maxInlineBytes,
      parse: (ok, first) => createRemoteFile(connection, { root, ...schemas.opened.parse(ok) }, first),
    });
  }

  /** Closes the root at the other end. A container that is gone needs none of it. */
  async function finishRoot(): Promise<void> {
    const root = await current?.root.catch(() => undefined);
    if (current === undefined || root === undefined) return;
    const { connection } = current.container;
    await connection.ask({ request: { do: 'finish', root }, parse: (ok) => schemas.nothing.parse(ok) }).catch(() => {});
  }

  return {
    kind: 'container',
    stat: async (path, options = {}) => ask({ do: 'stat', path: cutPath(path), options }, schemas.found),
    open,
    async write(path, content, how = {}) {
      if (content.byteLength > fileBytes) throw tooLargeError(content.byteLength, fileBytes);
      return ask({ do: 'write', path: cutPath(path), options: how }, schemas.written, content);
    },
    mayWrite: async (path, options = {}) => ask({ do: 'mayWrite', path: cutPath(path), options }, schemas.resolved),
    makeFolder: async (path) => ask({ do: 'makeFolder', path: cutPath(path) }, schemas.madeFolder),
    remove: async (path, options = {}) => ask({ do: 'remove', path: cutPath(path), options }, schemas.removed),
    move: async (from, to, options = {}) =>
      ask({ do: 'move', from: cutPath(from), to: cutPath(to), options }, schemas.moved),
    async list(path, options = {}) {
      const { connection, root } = await connect();
      return requestListing(
        connection,
        { do: 'list', root, path: cutPath(path), options },
        options.limit ?? defaultListLimit,
      );
    },
    async close() {
      if (isClosed) return;
      isClosed = true;
      await finishRoot();
      await shared.leave();
    },
  };
}

function requestListing(connection: FilesConnection, request: FilesRequest, limit: number) {
  return connection.ask({
    request,
    maxBodyBytes: maxDocumentBytes,
    parse(ok, body) {
      const { path, more } = schemas.listed.parse(ok);
      const entries = schemas.listedEntries.parse(JSON.parse(body.toString('utf8')));
      if (entries.length > limit) throw new Error('More entries than were asked for.');
      return { path, more, entries };
    },
  });
}

/** Cuts paths that are longer than any path: both ends refuse them, so they need not be sent whole. */
function cutPath(path: string): string {
  return typeof path === 'string' ? path.slice(0, maxPathLength) : path;
}

/** A file at the other end of a connection, with its first bytes. It is lost with its container. */
export function createRemoteFile(
  connection: FilesConnection,
  { root, facts, file }: RemoteFile,
  first: Buffer,
): OpenedFile {
  let isClosed = false;

  async function readPiece(file: number, offset: number, length: number): Promise<Buffer> {
    return connection.ask({
      request: { do: 'read', root, file, offset, length },
      maxBodyBytes: length,
      parse(ok, body) {
        schemas.nothing.parse(ok);
        return body;
      },
    });
  }

  return {
    facts,
    async read(offset, length) {
      assertByteRange(offset, length);
      if (file === undefined || offset + length <= first.length) return first.subarray(offset, offset + length);
      const pieces: Buffer[] = [];
      for (let left = length, at = offset; left > 0; ) {
        const wanted = Math.min(left, maxPieceBytes);
        const bytes = await readPiece(file, at, wanted);
        pieces.push(bytes);
        if (bytes.length < wanted) break;
        at += wanted;
        left -= wanted;
      }
      return pieces.length === 1 && pieces[0] !== undefined ? pieces[0] : Buffer.concat(pieces);
    },
    async close() {
      if (isClosed || file === undefined) return;
      isClosed = true;
      await connection
        .ask({ request: { do: 'close', root, file }, parse: (ok) => schemas.nothing.parse(ok) })
        .catch(() => {});
    },
  };
}
