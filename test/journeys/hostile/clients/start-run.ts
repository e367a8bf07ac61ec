import type { ChildProcessWithoutNullStreams } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { proof } from '../../../proof.ts';
import type { RpcMessage } from '../../json-mcp-client.ts';
import { spawnRun } from '../../start-ambit.ts';
import { probeEnvironment, waitUntilNothingRuns } from '../../start-probed-ambit.ts';
import { fixtures, readHeldMb } from '../start-watched-ambit.ts';

/** A real `ambit run --trust direct -- node <fixture>`, its stdin and stdout in our hands. */
export interface Run {
  readonly process: ChildProcessWithoutNullStreams;
  readonly folder: string;
  /** Every line it has said so far. */
  readonly said: readonly string[];
  say(bytes: string | Buffer): Promise<void>;
  /** The answer to this id. */
  answer(id: unknown): Promise<RpcMessage>;
  /** The next error that belongs to no request. */
  complaint(): Promise<RpcMessage>;
  errors(): string;
  /** The memory it holds after collecting garbage; available in the proof only. */
  heldMb(): Promise<number>;
  stop(): Promise<void>;
}

export async function startRun(file = 'well-behaved.js'): Promise<Run> {
  const folder = await mkdtemp(join(tmpdir(), 'ambit-run-'));
  const probe = join(folder, 'probe.sock');
  const env = proof ? probeEnvironment(probe) : {};
  const child = spawnRun(folder, [process.execPath, join(fixtures, file)], { env });
  const said: string[] = [];
  const answers = new Map<unknown, RpcMessage>();
  const complaints: RpcMessage[] = [];
  const waiting = new Set<() => void>();
  let unread = '';
  let errors = '';
  let over = false;

  function wake(): void {
    for (const look of [...waiting]) look();
  }

  child.stderr.on('data', (chunk: Buffer) => {
    errors += chunk.toString();
  });
  child.stdin.on('error', () => {});
  child.stdout.on('data', (chunk: Buffer) => {
    unread += chunk.toString();
    const lines = unread.split('\n');
    unread = lines.pop() as string;
    for (const line of lines) {
      said.push(line);
      const message = JSON.parse(line) as RpcMessage;
      if (message.id === null) complaints.push(message);
      else answers.set(message.id, message);
    }
    wake();
  });
  child.on('exit', () => {
    over = true;
    wake();
  });

  function once(find: () => RpcMessage | undefined): Promise<RpcMessage> {
    return new Promise((resolve, reject) => {
      const look = () => {
        const found = find();
        if (found === undefined && !over) return;
        waiting.delete(look);
        if (found === undefined) reject(new Error(`ambit run has ended: ${errors}`));
        else resolve(found);
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
    answer: (id) => once(() => answers.get(id)),
    complaint: () => once(() => complaints.shift()),
    errors: () => errors,
    heldMb: () => readHeldMb(probe),
    async stop() {
      if (child.exitCode === null && child.signalCode === null) {
        child.stdin.end();
        await new Promise((resolve) => child.once('exit', resolve));
      }
      // On a busy machine its reaper sweeps up a little longer.
      await waitUntilNothingRuns(join(folder, 'data'));
      await rm(folder, { recursive: true, force: true });
    },
  };
}
