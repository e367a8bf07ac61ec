import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import { compileCache, newerNode } from '../../tools/newer-node.ts';

export { writeConformanceTable as conformanceTable } from './conformance-table.ts';

export type Revision = '2026-07-28' | '2025-11-25';

/** `warned` counts broken recommendations (SHOULD), which the suite reports but does not score. */
export interface ScenarioOutcome {
  scenario: string;
  scored: boolean;
  passed: number;
  failed: number;
  warned: number;
  ok: boolean;
}

type Check = { status: 'SUCCESS' | 'FAILURE' | 'WARNING' | 'INFO' | 'SKIPPED' };
type Listed = { scenario: string; scored: boolean };
type Requirements = { server: string[]; not_scored?: { scenario: string; leg: string }[] };

const PACKAGE = fileURLToPath(new URL('../../../node_modules/@modelcontextprotocol/conformance', import.meta.url));
const KEPT_OUTPUT = 4_000;
/** Longer than the suite's own 30 seconds, so that a busy machine fails no scenario. */
const SCENARIO_MS = 120_000;

/** Runs every server scenario of one revision against a URL, in the order in which the suite lists them. */
export async function runConformance(options: {
  url: string;
  revision: Revision;
  signal?: AbortSignal;
}): Promise<ScenarioOutcome[]> {
  const results = await mkdtemp(join(tmpdir(), 'ambit-conformance-'));
  try {
    const output = await runSuite(options, results);
    const folders = await readdir(results);
    if (folders.length === 0) throw new Error(`the conformance suite left no results:\n${output}`);
    const scenarios = await listScenarios(options.revision);
    return await Promise.all(scenarios.map((listed) => readOutcome(listed, results, folders)));
  } finally {
    await rm(results, { recursive: true, force: true });
  }
}

// The exit code is not looked at: it repeats what the result files say, and is 1 for one failed check as for a crash.
async function runSuite(
  { url, revision, signal }: { url: string; revision: Revision; signal?: AbortSignal },
  results: string,
): Promise<string> {
  const { NODE_OPTIONS: _, ...rest } = process.env;
  const env = { ...rest, NODE_COMPILE_CACHE: compileCache };
  const what = ['--url', url, '--requirements', revision, '--timeout', String(SCENARIO_MS), '-o', results];
  const args = [join(PACKAGE, 'dist', 'index.js'), 'server', ...what];
  const child = spawn(newerNode(), args, { env, stdio: ['ignore', 'pipe', 'pipe'], ...(signal && { signal }) });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output = (output + text).slice(-KEPT_OUTPUT);
    });
  }
  await once(child, 'close');
  return output;
}

async function listScenarios(revision: Revision): Promise<Listed[]> {
  const yaml = await readFile(join(PACKAGE, 'requirements', `${revision}.yaml`), 'utf8');
  const { server, not_scored: notScored = [] } = parse(yaml) as Requirements;
  return [
    ...server.map((scenario) => ({ scenario, scored: true })),
    ...notScored.filter(({ leg }) => leg === 'server').map(({ scenario }) => ({ scenario, scored: false })),
  ];
}

async function readOutcome({ scenario, scored }: Listed, results: string, folders: string[]): Promise<ScenarioOutcome> {
  // A folder is named server-<scenario>-<ISO time>; one scenario's name may be the beginning of another's.
  const folder = folders.find((name) => name.replace(/-\d{4}-\d\d-\d\dT[\d-]+Z$/, '') === `server-${scenario}`);
  const checks = await readChecks(join(results, folder ?? '', 'checks.json'));
  const count = (status: Check['status']) => checks.filter((check) => check.status === status).length;
  const [passed, failed, warned] = [count('SUCCESS'), count('FAILURE'), count('WARNING')];
  return { scenario, scored, passed, failed, warned, ok: failed === 0 && passed > 0 };
}

// A scenario that crashed leaves no file, and that is a failure; one that was skipped leaves a file to say so.
async function readChecks(path: string): Promise<Check[]> {
  try {
    return JSON.parse(await readFile(path, 'utf8')) as Check[];
  } catch {
    return [{ status: 'FAILURE' }];
  }
}
