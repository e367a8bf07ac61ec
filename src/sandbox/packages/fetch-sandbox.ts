import { realpathSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { removeFolder } from '../../lib/fs/remove-folder.ts';
import { formatHostAndPort } from '../../lib/net/host-and-port.ts';
import type { Mount } from '../common/confinement.ts';
import { openEgress } from '../egress/open-egress.ts';
import type { ResourceLimits } from '../limits/limits.ts';
import type { SandboxRunner } from '../runner.ts';
import type { RunTool } from './package-kind.ts';
import { cacheFolder, type PackageSources, settingsFolder } from './package-sources.ts';
import { defaultBounds, type TreeBounds, watchTree } from './package-tree.ts';

export interface FetchOptions {
  /** The sandbox in which packages are fetched; rejects where there is none. */
  readonly sandbox: () => Promise<SandboxRunner>;
  /** The instance's folder: after a crash, leftovers in it are removed with it. */
  readonly tmpRoot: string;
  /** Paths that are never shown in the sandbox, as real paths. */
  readonly hidden: readonly string[];
  /** The PATH on which the tool finds other programs, such as its Node. */
  readonly searchPath: string;
  /** The size that a package may have on the disk. */
  readonly bounds?: TreeBounds;
}

export interface FetchSandbox {
  readonly run: RunTool;
  /** The folder of the tool's cache and logs. */
  readonly cache: string;
  /** Removes the credentials and the cache. */
  close(): Promise<void>;
}

const limits: ResourceLimits = { memoryMb: 2048, pids: 256, cpus: 2, fileMb: 2048, openFiles: 1024, wallSeconds: 300 };
const maxOutputBytes = 16_384;
let fetchCount = 0;

/**
 * Opens a sandbox for one fetch. The tool inside sees the folder it fetches into, its own settings and cache, and
 * nothing else of this machine. It reaches only the registries. The settings and the cache lie outside of the folder,
 * so no server ever sees them.
 */
export async function openFetchSandbox(
  program: string,
  sources: PackageSources,
  { sandbox, tmpRoot, hidden, searchPath, bounds = defaultBounds }: FetchOptions,
): Promise<FetchSandbox> {
  const runner = await sandbox();
  const work = join(tmpRoot, `fetch-${process.pid}-${++fetchCount}`);
  const [settings, cache] = [join(work, 'settings'), join(work, 'cache')];
  await mkdir(settings, { recursive: true, mode: 0o700 });
  await mkdir(cache, { mode: 0o700 });
  const refused: string[] = [];
  try {
    for (const [name, content] of Object.entries(sources.files)) {
      await writeFile(join(settings, name), content, { flag: 'wx', mode: 0o600 });
    }
    const egress = await openEgress({
      allowed: sources.hosts,
      folder: work,
      allowPrivate: true,
      onRefused: ({ to }) => void (refused.length < 10 && refused.push(to)),
      proxyFor: (wanted) => sources.proxyFor(formatHostAndPort(wanted)),
    });
    const readable: Mount[] = [
      { source: realpathSync.native(settings), target: settingsFolder },
      ...(sources.readable ?? []).map((path): Mount => ({ source: path, target: path })),
    ];
    return {
      cache,
      async run(args, folder) {
        const real = realpathSync.native(folder);
        const running = await runner.start({
          command: program,
          args,
          env: { ...sources.env, PATH: searchPath },
          cwd: folder,
          tmpDir: join(tmpRoot, `fetch-${process.pid}-${++fetchCount}`),
          confinement: {
            home: { source: real, target: real },
            readable,
            writable: [{ source: realpathSync.native(cache), target: cacheFolder }],
            hidden,
            limits,
          },
          egressProxy: { socket: egress.socket, allowed: sources.hosts },
        });
        running.stdin.end();
        let said = '';
        for (const stream of [running.stdout, running.stderr]) {
          stream.on('data', (bytes: Buffer) => {
            said = (said + bytes.toString('utf8')).slice(-maxOutputBytes);
          });
        }
        const stopWatching = watchTree([real, cache], bounds, () => void running.end());
        const { code, signal, reason } = await running.exited;
        const tooLarge = await stopWatching();
        if (tooLarge !== undefined) throw tooLarge;
        if (code === 0) return;
        const refusals = refused.length === 0 ? '' : ` (refused: ${refused.join(', ')})`;
        const words = sources.secrets.reduce((text, secret) => text.replaceAll(secret, '…'), said.trim());
        throw new Error(`${args[0]} ended with ${reason ?? signal ?? code}${refusals}: ${words}`);
      },
      async close() {
        await egress.close();
        await removeFolder(work);
      },
    };
  } catch (error) {
    await removeFolder(work);
    throw error;
  }
}
