import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

export interface TinyRegistry {
  readonly url: string;
  /** Paths that were asked for. */
  readonly asked: string[];
  publish(manifest: Manifest, files?: Readonly<Record<string, string>>): void;
  /** What is sent for a version from now on; what was promised stays. */
  swap(name: string, version: string, files: Readonly<Record<string, string>>): void;
  stop(): void;
}

export interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly bin?: unknown;
  readonly scripts?: Readonly<Record<string, string>>;
  readonly dependencies?: Readonly<Record<string, string>>;
}

/** A registry with just what npm asks for. The version published last is the latest. */
export async function startRegistry(): Promise<TinyRegistry> {
  const versions = new Map<string, Map<string, Manifest>>();
  const tarballs = new Map<string, Buffer>();
  const promised = new Map<string, string>();
  const asked: string[] = [];
  const server = createServer((request, response) => {
    const path = decodeURIComponent(request.url ?? '').slice(1);
    asked.push(path);
    const tarball = tarballs.get(path);
    if (tarball !== undefined) return void response.end(tarball);
    const known = versions.get(path);
    if (known === undefined) return void response.writeHead(404).end('{}');
    const described = [...known].map(([version, manifest]) => {
      const file = fileOf(path, version);
      return [version, { ...manifest, dist: { tarball: `${url}/${file}`, integrity: promised.get(file) } }];
    });
    const latest = [...known.keys()].at(-1);
    response.setHeader('Content-Type', 'application/json');
    response.end(JSON.stringify({ name: path, 'dist-tags': { latest }, versions: Object.fromEntries(described) }));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const url = `http://127.0.0.1:${(server.address() as { port: number }).port}`;

  return {
    url,
    asked,
    publish(manifest, files = {}) {
      const { name, version } = manifest;
      const tarball = pack({ 'package.json': JSON.stringify(manifest), ...files });
      tarballs.set(fileOf(name, version), tarball);
      promised.set(fileOf(name, version), `sha512-${createHash('sha512').update(tarball).digest('base64')}`);
      versions.set(name, (versions.get(name) ?? new Map()).set(version, manifest));
    },
    swap: (name, version, files) => void tarballs.set(fileOf(name, version), pack(files)),
    stop() {
      server.closeAllConnections();
      server.close();
    },
  };
}

const fileOf = (name: string, version: string): string => `-/${name.replace('/', '-')}-${version}.tgz`;

function pack(files: Readonly<Record<string, string>>): Buffer {
  const folder = mkdtempSync(join(tmpdir(), 'ambit-pack-'));
  try {
    for (const [name, content] of Object.entries(files)) {
      const file = join(folder, 'package', name);
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, content);
    }
    return execFileSync('tar', ['-C', folder, '-czf', '-', 'package']);
  } finally {
    rmSync(folder, { recursive: true });
  }
}
