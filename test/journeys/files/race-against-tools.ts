import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { constants, copyFileSync, cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { repository } from '../../structure/source-files.ts';
import { type Account, changeOwner, own } from '../../workspaces/saferoot/accounts.ts';
import { createSceneForTest, type Scene, secret, takeSnapshot } from '../../workspaces/saferoot/scene.ts';
import { startSwapping } from '../../workspaces/saferoot/start-swapping.ts';

/** A call that prepares another one is not counted. */
export type Call = readonly [tool: string, args: Readonly<Record<string, unknown>>, does?: 'prepares'];

/** A server of files over stdio, as a client of the handshake era has it. */
export interface FileServer {
  call(tool: string, args: object): Promise<{ readonly text: string; readonly isError: boolean }>;
  close(): Promise<void>;
}

export interface Raced {
  readonly tries: number;
  readonly done: number;
  readonly leaks: number;
}

/** The folder to be swapped, and outside the same names, so that whatever goes astray would do its work there. */
function furnish(scene: Scene): void {
  for (const [folder, content] of [
    [scene.inside('a/d'), 'inside'],
    [scene.outside(), `${secret} inside `.repeat(20)],
  ] as const) {
    mkdirSync(join(folder, 'sub'), { recursive: true });
    for (const name of ['f.txt', 'g.txt', 'moved.txt', 'sub/f.txt']) writeFileSync(join(folder, name), content);
  }
  writeFileSync(scene.outside('SECRET.txt'), secret);
}

/** So many calls of each tool come through, however busy the machine is. */
export const enough = 5;

export interface Racing {
  readonly account?: Account;
  readonly ms: number;
  /** The attempts after which a tool need not go on when that time has passed. */
  readonly isEnough?: (name: string, raced: Raced, scene: Scene) => boolean;
}

/** Every tool at once, each over and over for that long, while a folder on their way is swapped for a link out. */
export async function raceAgainstTools(
  open: (scene: Scene, account: Account) => Promise<FileServer>,
  tools: Readonly<Record<string, readonly Call[]>>,
  { account = own, ms, isEnough = (_, { done }) => done >= enough }: Racing,
) {
  const scene = createSceneForTest();
  furnish(scene);
  const script = join(scene.base, 'swapper.mjs');
  cpSync(join(import.meta.dirname, '../../workspaces/saferoot/swapper.js'), script);
  changeOwner(scene, account);
  const server = await open(scene, account);
  const before = takeSnapshot(scene.outside());
  const swapper = await startSwapping(scene.inside('a'), { account, script });
  const began = Date.now();
  const results = await Promise.all(
    Object.entries(tools).map(async ([name, calls]) => {
      let [tries, done, leaks] = [0, 0, 0];
      const spent = () => Date.now() - began;
      while (swapper.isAtWork() && (spent() < ms || !isEnough(name, { tries, done, leaks }, scene))) {
        for (const [tool, args, does] of calls) {
          const { text, isError } = await server.call(tool, args);
          if (text.includes('SECRET')) leaks++;
          if (does === 'prepares') continue;
          tries++;
          if (!isError) done++;
        }
      }
      return [name, { tries, done, leaks }] as const;
    }),
  );
  const swapped = swapper.isAtWork();
  await swapper.stop();
  await server.close();
  return { results: Object.fromEntries<Raced>(results), swapped, before, after: takeSnapshot(scene.outside()) };
}

/** Ambit as it is published, and its Node, where another account can read them wherever this checkout lies. */
export function openAmbitServer(scene: Scene, account: Account, node = process.execPath): Promise<FileServer> {
  const home = join(scene.base, 'ambit');
  mkdirSync(home);
  const ownNode = join(home, 'node');
  copyFileSync(node, ownNode, constants.COPYFILE_FICLONE);
  const { dependencies } = JSON.parse(readFileSync(join(repository, 'package.json'), 'utf8')) as {
    readonly dependencies: Record<string, string>;
  };
  for (const part of [
    'bin',
    'dist',
    'package.json',
    ...Object.keys(dependencies).map((name) => `node_modules/${name}`),
  ]) {
    if (existsSync(join(repository, part))) cpSync(join(repository, part), join(home, part), { recursive: true });
  }
  const config = join(home, 'config/ambit.json');
  mkdirSync(join(home, 'config'));
  const quotas = { session: { callsPerMinute: 1_000_000 } };
  const workspaces = { raced: { path: scene.inside() } };
  writeFileSync(config, JSON.stringify({ version: 1, store: { kind: 'memory' }, quotas, workspaces }));
  changeOwner(scene, account);
  const flags = ['--config', config, '--data-dir', join(home, 'data'), '--workspace', 'raced', '--trust', 'sandboxed'];
  return openServer([ownNode, join(home, 'bin/ambit.js'), 'stdio', ...flags], account);
}

export function openPublishedServer(scene: Scene): Promise<FileServer> {
  const server = join(repository, 'node_modules/@modelcontextprotocol/server-filesystem/dist/index.js');
  return openServer([process.execPath, server, scene.inside()], own);
}

async function openServer([command, ...args]: readonly [string, ...string[]], account: Account): Promise<FileServer> {
  const child = spawn(command, args, { ...account, stdio: ['pipe', 'pipe', 'ignore'] });
  const exited = once(child, 'exit');
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await exited;
  });
  const waiting = new Map<number, (message: Answer) => void>();
  let [rest, last] = ['', 0];
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop() as string;
    for (const message of lines.map((line) => JSON.parse(line) as Answer)) {
      waiting.get(message.id)?.(message);
      waiting.delete(message.id);
    }
  });
  const send = (message: object) => child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
  const request = (method: string, params: object) =>
    new Promise<Answer>((resolve) => {
      waiting.set(++last, resolve);
      send({ id: last, method, params });
    });
  const clientInfo = { name: 'racing', version: '0' };
  await request('initialize', { protocolVersion: '2025-06-18', capabilities: {}, clientInfo });
  send({ method: 'notifications/initialized' });
  return {
    async call(name, args) {
      const { result, error } = await request('tools/call', { name, arguments: args });
      const text = JSON.stringify(result ?? error);
      return { text, isError: result?.isError === true || error !== undefined };
    },
    async close() {
      child.stdin.end();
      await exited;
    },
  };
}

interface Answer {
  readonly id: number;
  readonly result?: { readonly isError?: boolean };
  readonly error?: object;
}
