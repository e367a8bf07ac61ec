import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  closeSync,
  constants,
  copyFileSync,
  fchmodSync,
  fstatSync,
  ftruncateSync,
  lstatSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
} from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { assertOutOfReach } from '../../config/load/out-of-reach.ts';
import type { Config } from '../../config/schema/schema.ts';
import { AmbitError } from '../../errors.ts';
import { claimDataDir } from '../../lib/fs/private-files.ts';
import { escapeControls } from '../../lib/text/escape-controls.ts';
import { commandLine } from '../../package-paths.ts';
import { type Invocation, readFlag } from '../command.ts';
import type { ConfigPaths } from './config-paths.ts';
import { shortenPath } from './find-gateway.ts';
import { showProgress } from './progress.ts';

/** The addresses that a gateway prints when it is ready. */
export interface ReadyMessage {
  readonly url: string;
  readonly mcpUrl: string;
  readonly adminUrl: string;
}

/** The part of a gateway in the background that talks to the command that started it. */
export interface BackgroundChild {
  readonly logFile: string;
  /** Resolves if the starting command ends before the gateway is ready. */
  readonly abandoned: Promise<void>;
  /** Tells the starting command that the gateway is ready, and lets go of it. */
  ready(message: ReadyMessage): void;
  close(): void;
}

/** Names the log file to the child. The child removes it from its environment. */
const logVariable = 'AMBIT_BACKGROUND_LOG';
const maxLogBytes = 10 * 1024 * 1024;
const checkLogMs = 60_000;
const maxShownBytes = 64 * 1024;
const passedFlags = ['host', 'port', 'log-level', 'log-format'];

/** The log of a gateway in the background. */
export function gatewayLogFile(dataDir: string): string {
  return join(dataDir, 'gateway.log');
}

/**
 * Starts a gateway in a session of its own and waits until it is ready. Its output goes to the log, and what it said
 * until then is shown here. If this command is killed meanwhile, the gateway ends too.
 */
export async function startInBackground(invocation: Invocation, paths: ConfigPaths, config: Config): Promise<number> {
  // The log must not be made where an agent could replace it.
  assertOutOfReach({ ...paths, config });
  claimDataDir(paths.dataDir);
  const logFile = gatewayLogFile(paths.dataDir);
  const log = openFreshLog(logFile);
  const flags = passedFlags.flatMap((name) => {
    const value = readFlag(invocation, name);
    return value === undefined ? [] : [`--${name}`, value];
  });
  const args = ['serve', '--config', paths.configFile, '--data-dir', paths.dataDir, ...flags];
  const nodeFlags = process.execArgv.filter((flag) => !flag.startsWith('--inspect'));
  const child = spawn(process.execPath, [...nodeFlags, commandLine, ...args], {
    // The folder of the terminal may be removed or unmounted later.
    cwd: paths.dataDir,
    detached: true,
    env: { ...invocation.env, [logVariable]: logFile },
    stdio: ['ignore', log, log, 'ipc'],
  });
  closeSync(log);
  const ready = await waitUntilReady(child);
  const said = readEnd(logFile, maxShownBytes).text;
  process.stderr.write(said.replace(/[^\n]+/g, escapeControls));
  if (ready === undefined) {
    const [code, signal] = [child.exitCode, child.signalCode];
    // The gateway has said why it ended, unless it was killed or crashed.
    if (code === 1) return 1;
    throw new AmbitError('GATEWAY_UNREACHABLE', {
      what: `The gateway ended ${signal === null ? `with code ${code}` : `by ${signal}`} before it was ready.`,
      hint: `Its log is ${shortenPath(logFile)}.`,
    });
  }
  if (invocation.flags.json === true) process.stdout.write(`${JSON.stringify(ready)}\n`);
  process.stderr.write(
    `ambit: running in the background (pid ${child.pid}), log in ${escapeControls(shortenPath(logFile))}\n`,
  );
  process.stderr.write('ambit: "ambit status" shows it, "ambit stop" ends it.\n');
  child.unref();
  return 0;
}

/** Resolves with the addresses of the gateway, or with undefined if it ends before it is ready. */
async function waitUntilReady(child: ChildProcess): Promise<ReadyMessage | undefined> {
  const heard = once(child, 'message').then(([message]) => message as ReadyMessage);
  const ended = once(child, 'exit').then(() => undefined);
  try {
    return await showProgress('Waiting for the gateway', Promise.race([heard, ended]));
  } finally {
    heard.catch(() => {});
    if (child.connected) child.disconnect();
  }
}

/** Opens an empty log. The log of the last gateway in the background is kept as `gateway.log.1`. */
function openFreshLog(file: string): number {
  if (lstatSync(file, { throwIfNoEntry: false }) !== undefined) renameSync(file, `${file}.1`);
  const { O_APPEND, O_CREAT, O_EXCL, O_NOFOLLOW = 0, O_WRONLY } = constants;
  const descriptor = openSync(file, O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600);
  fchmodSync(descriptor, 0o600);
  return descriptor;
}

/** Returns the side of the child, if this process is a gateway that `startInBackground` started. */
export function openBackgroundChild(invocation: Invocation): BackgroundChild | undefined {
  const logFile = invocation.env[logVariable];
  for (const env of [invocation.env, process.env]) delete env[logVariable];
  if (logFile === undefined || process.send === undefined) return undefined;
  const isLog = isSameFile(logFile);
  const trimming = setInterval(() => isLog && trimLog(logFile), checkLogMs).unref();
  let isReady = false;
  const abandoned = new Promise<void>((resolve) => {
    process.once('disconnect', () => {
      if (!isReady) resolve();
    });
    if (!process.connected) resolve();
  });
  // The wait must not keep a gateway alive that could not start.
  process.channel?.unref();
  return {
    logFile,
    abandoned,
    ready(message) {
      isReady = true;
      process.send?.(message, () => {
        if (process.connected) process.disconnect();
      });
    },
    close: () => clearInterval(trimming),
  };
}

/** Whether stderr of this process is the file. */
function isSameFile(file: string): boolean {
  const [ours, named] = [fstatSync(2), lstatSync(file, { throwIfNoEntry: false })];
  return named !== undefined && ours.isFile() && ours.ino === named.ino && ours.dev === named.dev;
}

/** Moves the content of a long log to `gateway.log.1`. The file stays the same, because stderr of this process is open. */
function trimLog(file: string): void {
  try {
    if (fstatSync(2).size <= maxLogBytes) return;
    rmSync(`${file}.1`, { force: true });
    copyFileSync(file, `${file}.1`, constants.COPYFILE_EXCL);
    ftruncateSync(2);
  } catch {
    // The file system is full, perhaps. It is tried again in a minute.
  }
}

/** Prints the last lines of the log. Returns the position of its end. */
export async function printGatewayLog(
  file: string,
  lines: number,
  print: (line: string) => Promise<void>,
): Promise<number> {
  if (lstatSync(file, { throwIfNoEntry: false }) === undefined) {
    throw new AmbitError('GATEWAY_UNREACHABLE', {
      what: `There is no log of a gateway in the background at ${shortenPath(file)}.`,
      hint: 'Start one with "ambit serve --background". A gateway in the foreground writes to its terminal. For the log of a server: "ambit logs SERVER".',
    });
  }
  const { text, end } = readEnd(file, maxLogBytes);
  const all = text.split('\n').slice(0, -1);
  for (const line of lines === 0 ? [] : all.slice(-lines)) await print(line);
  return end;
}

const followMs = 200;

/** Prints new lines of the log until the reader is gone, also those of the next gateway in the background. */
export async function followGatewayLog(
  file: string,
  from: number,
  print: (line: string) => Promise<void>,
  readerGone: AbortSignal,
): Promise<void> {
  let position = from;
  let inode = lstatSync(file, { throwIfNoEntry: false })?.ino;
  let open = '';
  while (!readerGone.aborted) {
    const stats = lstatSync(file, { throwIfNoEntry: false });
    if (stats !== undefined && (stats.ino !== inode || stats.size < position)) {
      [inode, position, open] = [stats.ino, 0, ''];
    }
    if (stats !== undefined && stats.size > position) {
      const { text, end } = readEnd(file, stats.size - position);
      const lines = (open + text).split('\n');
      open = lines.pop() ?? '';
      position = end;
      for (const line of lines) await print(line);
    } else await delay(followMs);
  }
}

/** Reads the last bytes of a file, from the start of a line on where the file is longer. */
function readEnd(file: string, maxBytes: number): { readonly text: string; readonly end: number } {
  const descriptor = openSync(file, constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0));
  try {
    const { size } = fstatSync(descriptor);
    const start = Math.max(0, size - maxBytes);
    const bytes = Buffer.alloc(size - start);
    const length = readSync(descriptor, bytes, 0, bytes.length, start);
    return { text: bytes.subarray(0, length).toString('utf8'), end: start + length };
  } finally {
    closeSync(descriptor);
  }
}
