import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import { gzipSync } from 'node:zlib';
import { type PackedFile, packFiles } from './pack-files.ts';

export type Files = Readonly<Record<string, string | PackedFile>>;

export interface TinyRegistry {
  readonly url: string;
  /** Paths that were asked for. */
  readonly asked: string[];
  /** The Authorization header of each request. */
  readonly credentials: (string | undefined)[];
  publish(manifest: Manifest, files?: Files, dist?: Dist): void;
  /** What is sent for a version from now on; what was promised stays. */
  swap(name: string, version: string, files: Files): void;
  /** Lets requests for tarballs wait until the returned function is called. */
  holdTarballs(): () => void;
  stop(): void;
}

export interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly bin?: unknown;
  readonly scripts?: Readonly<Record<string, string>>;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly [field: string]: unknown;
}

/** What the registry says of a tarball in place of the truth. */
export interface Dist {
  readonly tarball?: string;
  readonly integrity?: string | undefined;
}

/** A registry with just what npm asks for. The version published last is the latest. */
export async function startRegistry(
  isAdmitted: (request: IncomingMessage) => boolean = () => true,
): Promise<TinyRegistry> {
  const versions = new Map<string, Map<string, Manifest & { readonly dist: Dist }>>();
  const tarballs = new Map<string, Buffer>();
  const asked: string[] = [];
  let held = Promise.resolve();
  const credentials: (string | undefined)[] = [];
  const server = createServer((request, response) => {
    const path = decodeURIComponent(request.url ?? '').slice(1);
    asked.push(path);
    credentials.push(request.headers.authorization);
    if (!isAdmitted(request)) return void response.writeHead(401).end('{}');
    const tarball = tarballs.get(path);
    if (tarball !== undefined) return void held.then(() => response.end(tarball));
    const known = versions.get(path);
    if (known === undefined) return void response.writeHead(404).end('{}');
    const latest = [...known.keys()].at(-1);
    response.setHeader('Content-Type', 'application/json');
    response.end(JSON.stringify({ name: path, 'dist-tags': { latest }, versions: Object.fromEntries(known) }));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const url = `http://127.0.0.1:${(server.address() as { port: number }).port}`;

  return {
    url,
    asked,
    credentials,
    publish(manifest, files = {}, dist = {}) {
      const { name, version } = manifest;
      const tarball = pack({ 'package.json': JSON.stringify(manifest), ...files });
      const file = fileOf(name, version);
      tarballs.set(file, tarball);
      const integrity = `sha512-${createHash('sha512').update(tarball).digest('base64')}`;
      const described = { ...manifest, dist: { tarball: `${url}/${file}`, integrity, ...dist } };
      versions.set(name, (versions.get(name) ?? new Map()).set(version, described));
    },
    swap: (name, version, files) => void tarballs.set(fileOf(name, version), pack(files)),
    holdTarballs() {
      let release = () => {};
      held = new Promise((resolve) => {
        release = resolve;
      });
      return release;
    },
    stop() {
      server.closeAllConnections();
      server.close();
    },
  };
}

const fileOf = (name: string, version: string): string => `-/${name.replace('/', '-')}-${version}.tgz`;

/** Names that begin with `=` stand in the tarball as they are, without the folder `package`. */
const pack = (files: Files): Buffer =>
  gzipSync(
    packFiles(
      Object.entries(files).map(([name, file]) => ({
        ...(typeof file === 'string' ? { content: file } : file),
        name: name.startsWith('=') ? name.slice(1) : `package/${name}`,
      })),
    ),
  );
