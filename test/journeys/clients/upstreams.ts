import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { startConformanceServer } from '../conformance/start-conformance-server.ts';
import { repository } from '../start-ambit.ts';
import { everything, filesystem, fixture, type Script } from './checks/upstream-scripts.ts';

export type UpstreamName = 'everything stdio' | 'everything http' | 'filesystem' | 'fixture stdio' | 'fixture http';

const packages = join(repository, 'node_modules', '@modelcontextprotocol');
const tellPort = pathToFileURL(join(import.meta.dirname, 'tell-port.js')).href;
const everythingServer = join(packages, 'server-everything', 'dist', 'index.js');

/** Folders for one visit: what the server may read, where evidence goes. */
export interface TestFolders {
  readonly folder: string;
  readonly files: string;
  readonly taps: string;
  remove(): void;
}

export function createFolders(): TestFolders {
  const folder = mkdtempSync(join(tmpdir(), 'ambit-clients-'));
  const place = { folder, files: join(folder, 'files'), taps: join(folder, 'taps') };
  for (const each of [place.files, place.taps, join(folder, 'start')]) mkdirSync(each);
  writeFileSync(join(place.files, 'note.txt'), 'a note');
  execFileSync('mkfifo', [join(place.files, 'pipe')]);
  return { ...place, remove: () => rmSync(folder, { recursive: true, force: true }) };
}

export function findScript(name: UpstreamName, place: TestFolders): Script {
  if (name === 'filesystem') return filesystem(place.files);
  return name.startsWith('everything') ? everything : fixture;
}

/** The arguments for node that start a stdio server. */
export function listStdioArguments(name: UpstreamName, place: TestFolders): string[] {
  switch (name) {
    case 'everything stdio':
      return [everythingServer, 'stdio'];
    case 'filesystem':
      // Not the folder of the client's root: so it shows whether the server was told of that.
      return [join(packages, 'server-filesystem', 'dist', 'index.js'), join(place.folder, 'start')];
    case 'fixture stdio':
      return [join(repository, 'test', 'fixtures', 'conformance', 'stdio.js')];
    default:
      throw new Error(`${name} is no stdio server`);
  }
}

export interface HttpUpstream {
  readonly url: string;
  stop(): Promise<void>;
}

export async function startHttpUpstream(name: UpstreamName): Promise<HttpUpstream> {
  return name === 'fixture http' ? startConformanceServer() : startEverything();
}

async function startEverything(): Promise<HttpUpstream> {
  const child: ChildProcess = spawn(process.execPath, ['--import', tellPort, everythingServer, 'streamableHttp'], {
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    env: { ...process.env, PORT: '0' },
  });
  const exited = once(child, 'exit');
  const [{ port }] = (await Promise.race([
    once(child, 'message'),
    exited.then(() => Promise.reject(new Error('server-everything did not start'))),
  ])) as [{ port: number }];
  return {
    url: `http://127.0.0.1:${port}/mcp`,
    async stop() {
      child.kill('SIGKILL');
      await exited;
    },
  };
}
