import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { spawnAmbit } from '../start-ambit.ts';

const tracer = pathToFileURL(join(import.meta.dirname, 'fixtures', 'trace.js')).href;

/** The doings of one process of `ambit`, without those of its children. */
export interface Trace {
  /** The programs that it started, with their arguments. */
  readonly programs: readonly string[];
  /** The files of `src/` whose code it loaded, as the source maps of what is published say. */
  readonly sources: readonly string[];
}

export interface TracedCommand extends Trace {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Starts the built `ambit` with the tracer in it. Its trace can be read at any time. */
export async function startTraced(args: readonly string[]) {
  const folder = await mkdtemp(join(tmpdir(), 'ambit-trace-'));
  const file = join(folder, 'trace');
  const child = spawnAmbit(args, { NODE_OPTIONS: `--import ${tracer}`, TRACE_FILE: file });
  return { child, trace: () => readTrace(file, child.pid as number), clear: () => rm(folder, { recursive: true }) };
}

/** Runs a command to its end. */
export async function runTraced(args: readonly string[]): Promise<TracedCommand> {
  const { child, trace, clear } = await startTraced(args);
  const [stdout, stderr] = await Promise.all([text(child.stdout!), text(child.stderr!), once(child, 'close')]);
  try {
    return { code: child.exitCode, stdout, stderr, ...trace() };
  } finally {
    await clear();
  }
}

function readTrace(file: string, pid: number): Trace {
  const lines = existsSync(file) ? readFileSync(file, 'utf8').split('\n') : [];
  const after = (kind: string) =>
    lines.filter((line) => line.startsWith(`${pid} ${kind} `)).map((line) => line.split(' ').slice(2).join(' '));
  const loaded = after('loaded').filter((url) => url.startsWith('file:'));
  return { programs: after('started'), sources: loaded.flatMap((url) => sourcesOf(fileURLToPath(url))) };
}

function sourcesOf(file: string): string[] {
  const map = `${file}.map`;
  if (!existsSync(map)) return [];
  const { sources } = JSON.parse(readFileSync(map, 'utf8')) as { readonly sources: readonly string[] };
  return sources.flatMap((path) => /(?:^|\/)src\/.*$/.exec(path)?.[0].replace(/^\//, '') ?? []);
}
