import { join } from 'node:path';
import { lookUp } from '../look-up.ts';
import type { Runner } from '../runner.ts';
import { fetchEnvironment } from './fetch-environment.ts';
import type { RunTool } from './package-kind.ts';

export interface FetcherPlace {
  /** Starts what runs outside. */
  readonly runner: Runner;
  readonly tmpRoot: string;
  readonly env: () => NodeJS.ProcessEnv;
}

const limitMs = 300_000;
const keptBytes = 16_384;
let runs = 0;

/** Undefined where the tool is not on PATH. */
export function fetcherNamed(name: string, { runner, tmpRoot, env }: FetcherPlace): RunTool | undefined {
  const command = lookUp(name, env()['PATH']);
  if (command === undefined) return undefined;
  return async (args, folder) => {
    const tmpDir = join(tmpRoot, `fetch-${process.pid}-${++runs}`);
    const running = await runner.start({ command, args, env: fetchEnvironment(env(), tmpDir), cwd: folder, tmpDir });
    running.stdin.end();
    let said = '';
    for (const stream of [running.stdout, running.stderr]) {
      stream.on('data', (bytes: Buffer) => {
        said = (said + bytes.toString('utf8')).slice(-keptBytes);
      });
    }
    const late = setTimeout(() => void running.end(), limitMs).unref();
    const { code, signal } = await running.exited;
    clearTimeout(late);
    if (code !== 0) throw new Error(`${name} ${args[0]} ended with ${signal ?? code}: ${said.trim()}`);
  };
}
