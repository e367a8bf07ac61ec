import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';

/** One bash for a whole page: variables and the working folder last from one block to the next. */
export interface PageShell {
  /** Runs a block to its end and gives what it printed. A command that fails ends the page. */
  run(block: string): Promise<string>;
  /** Starts a block in the same folder, until the page ends. Resolves when `isReady` accepts what it has printed. */
  start(block: string, isReady: (printed: string) => boolean): Promise<string>;
  /** Whether a started block, such as `ambit serve`, is running. */
  hasStarted(command: string): boolean;
  /** Resolves when a started block prints this from now on. */
  waitFor(text: string): Promise<void>;
  folder(): string;
  close(): Promise<void>;
}

export function openPageShell(home: string, env: NodeJS.ProcessEnv, functions: string): PageShell {
  const notes = mkdtempSync(join(tmpdir(), 'ambit-page-'));
  const [library, block, output] = ['functions.sh', 'block.sh', 'output.txt'].map((name) => join(notes, name)) as [
    string,
    string,
    string,
  ];
  writeFileSync(library, `set -eo pipefail\n${functions}`);
  const started: { readonly child: ChildProcess; readonly block: string }[] = [];
  let folder = home;
  const shell = spawn('bash', ['--noprofile', '--norc'], { cwd: home, env, stdio: ['pipe', 'ignore', 'pipe', 'pipe'] });
  shell.stderr?.resume();
  // A shell that has ended is noticed when its answer is missing.
  shell.stdin?.on('error', () => {});
  const ended = once(shell, 'exit');
  const answers = createInterface({ input: shell.stdio[3] as Readable })[Symbol.asyncIterator]();
  shell.stdin?.write(`source ${library}\n`);

  return {
    async run(text) {
      writeFileSync(block, text);
      shell.stdin?.write(`source ${block} </dev/null >${output} 2>&1; pwd >&3\n`);
      const { value } = await answers.next();
      const printed = existsSync(output) ? readFileSync(output, 'utf8') : '';
      if (value === undefined) throw new Error(`This block failed:\n${text}\nIt printed:\n${printed}`);
      folder = value;
      return printed;
    },
    async start(text, isReady) {
      const script = `source ${library}\n${text}`;
      const child = spawn('bash', ['--noprofile', '--norc', '-c', script], {
        cwd: folder,
        env,
        stdio: ['ignore', 'pipe', 'pipe'],
        detached: true,
      });
      started.push({ child, block: text });
      let printed = '';
      return new Promise((resolve, reject) => {
        for (const stream of [child.stdout, child.stderr]) {
          stream?.on('data', (chunk: Buffer) => {
            printed += chunk.toString();
            if (isReady(printed)) resolve(printed);
          });
        }
        child.on('exit', (code) => reject(new Error(`This block left with ${code}:\n${text}\n${printed}`)));
      });
    },
    hasStarted: (command) => started.some((each) => each.block.includes(command)),
    waitFor(text) {
      return new Promise((resolve) => {
        for (const { child } of started) {
          let printed = '';
          child.stderr?.on('data', (chunk: Buffer) => {
            printed += chunk.toString();
            if (printed.includes(text)) resolve();
          });
        }
      });
    },
    folder: () => folder,
    async close() {
      for (const { child } of started.reverse()) await endGroup(child);
      if (shell.exitCode === null && shell.signalCode === null) shell.stdin?.end('exit\n');
      await ended;
      rmSync(notes, { recursive: true, force: true });
    },
  };
}

/** A block is a group of processes, as in a terminal: a signal reaches all of them. */
async function endGroup(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  // Closed when the last process of the group has ended.
  const ended = once(child, 'close');
  process.kill(-(child.pid as number), 'SIGTERM');
  await ended;
}
