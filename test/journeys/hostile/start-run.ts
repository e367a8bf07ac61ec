import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ambitBin } from '../start-ambit.ts';
import type { Spoken } from './mcp-calls.ts';
import { fixtures } from './vital-signs.ts';

/** A real `ambit run --trust direct -- node <fixture>`, its stdin and stdout in our hands. */
export interface Run {
  readonly process: ChildProcessWithoutNullStreams;
  readonly folder: string;
  /** Every line it has said so far; a line that is no JSON-RPC message throws where it is read. */
  readonly said: readonly string[];
  say(bytes: string | Buffer): Promise<void>;
  /** The answer to this id. */
  answer(id: unknown): Promise<Spoken>;
  /** The next error that belongs to no request. */
  complaint(): Promise<Spoken>;
  errors(): string;
  stop(): Promise<void>;
}

export async function startRun(file = 'well-behaved.js'): Promise<Run> {
  const folder = await mkdtemp(join(tmpdir(), 'ambit-run-'));
  const places = ['--config', join(folder, 'none.yaml'), '--data-dir', join(folder, 'data')];
  const args = [ambitBin, 'run', '--trust', 'direct', ...places, '--', process.execPath, join(fixtures, file)];
  const child = spawn(process.execPath, args, { stdio: 'pipe' });
  const said: string[] = [];
  const waiting = new Set<() => void>();
  let unread = '';
  let errors = '';
  let taken = 0;
  child.stderr.on('data', (chunk: Buffer) => {
    errors += chunk.toString();
  });
  child.stdin.on('error', () => {});
  child.stdout.on('data', (chunk: Buffer) => {
    unread += chunk.toString();
    const lines = unread.split('\n');
    unread = lines.pop() as string;
    said.push(...lines);
    for (const wake of [...waiting]) wake();
  });
  let over = false;
  child.on('exit', () => {
    over = true;
    for (const wake of [...waiting]) wake();
  });

  function first(fits: (message: Spoken, index: number) => boolean): Promise<Spoken> {
    return new Promise((resolve, reject) => {
      let from = 0;
      const look = () => {
        for (; from < said.length; from++) {
          const message = JSON.parse(said[from] as string) as Spoken;
          if (!fits(message, from)) continue;
          waiting.delete(look);
          resolve(message);
          return;
        }
        if (over) reject(new Error(`ambit run has ended: ${errors}`));
      };
      waiting.add(look);
      look();
    });
  }

  return {
    process: child,
    folder,
    said,
    say: (bytes) => new Promise((resolve) => child.stdin.write(bytes, () => resolve())),
    answer: (id) => first((message) => message.id === id),
    complaint: () =>
      first((message, index) => {
        if (message.id !== null || index < taken) return false;
        taken = index + 1;
        return true;
      }),
    errors: () => errors,
    async stop() {
      if (child.exitCode === null && child.signalCode === null) {
        const exited = once(child, 'exit');
        child.stdin.end();
        await exited;
      }
      await rm(folder, { recursive: true, force: true });
    },
  };
}
