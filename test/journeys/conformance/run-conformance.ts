import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import { compileCache, newerNode } from '../../tools/newer-node.ts';

export { writeConformanceTable as conformanceTable } from './conformance-table.ts';

export type Revision = '2026-07-28' | '2025-11-25' | '2025-06-18';

/** `warned` counts broken recommendations (SHOULD), which the suite reports but does not score. */
export interface ScenarioOutcome {
  scenario: string;
  scored: boolean;
  passed: number;
  failed: number;
  warned: number;
  ok: boolean;
  /** Each check as `id=STATUS`, without the log lines that the suite keeps among them. */
  checks: string[];
}

type Check = { id: string; status: 'SUCCESS' | 'FAILURE' | 'WARNING' | 'INFO' | 'SKIPPED' };
type Listed = { scenario: string; scored: boolean };
type Requirements = { server: string[]; not_scored?: { scenario: string; leg: string }[] };

const PACKAGE = fileURLToPath(new URL('../../../node_modules/@modelcontextprotocol/conformance', import.meta.url));
const KEPT_OUTPUT = 4_000;
/** Extensions that the requirements of 2026-07-28 do not list. */
const SKILLS = ['sep-2640-skills-directory', 'sep-2640-skills-enumeration', 'sep-2640-skills-manifest'];
const LOG_LINES = ['outgoing-request', 'incoming-response', 'incoming-sse-event', 'stream-closed'];
/** Longer than the suite's own 30 seconds, so that a busy machine fails no scenario. */
const SCENARIO_MS = 120_000;

export interface RunOptions {
  readonly url: string;
  readonly revision: Revision;
  /** Runs `--suite all` with the extensions, instead of the scenarios that the revision requires. */
  readonly whole?: boolean;
  /** Runs this scenario only. */
  readonly scenario?: string;
  readonly signal?: AbortSignal;
}

/** Runs the server scenarios of one revision against a URL. */
export async function runConformance(options: RunOptions): Promise<ScenarioOutcome[]> {
  const results = await mkdtemp(join(tmpdir(), 'ambit-conformance-'));
  try {
    const { revision, whole = false, scenario } = options;
    const byRequirements = scenario === undefined && (!whole || revision === '2026-07-28');
    const chosen = scenario === undefined ? ['--suite', 'all'] : ['--scenario', scenario];
    const choice = byRequirements ? ['--requirements', revision] : [...chosen, '--spec-version', revision];
    let output = await runSuite(options, choice, results);
    if (whole && byRequirements) {
      for (const each of SKILLS) output += await runSuite(options, ['--scenario', each], results);
    }
    const folders = await readdir(results);
    if (folders.length === 0) throw new Error(`the conformance suite left no results:\n${output}`);
    const scenarios =
      whole || scenario !== undefined ? folders.map(scenarioOf).sort().map(unscored) : await listScenarios(revision);
    return await Promise.all(scenarios.map((listed) => readOutcome(listed, results, folders)));
  } finally {
    await rm(results, { recursive: true, force: true });
  }
}

// The exit code is not looked at: it repeats what the result files say, and is 1 for one failed check as for a crash.
async function runSuite({ url, signal }: RunOptions, choice: string[], results: string): Promise<string> {
  const { NODE_OPTIONS: _, ...rest } = process.env;
  const env = { ...rest, NODE_COMPILE_CACHE: compileCache };
  const what = ['--url', url, ...choice, '--timeout', String(SCENARIO_MS), '-o', results];
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

const unscored = (scenario: string): Listed => ({ scenario, scored: false });

/** A folder is named server-<scenario>-<ISO time>. */
function scenarioOf(folder: string): string {
  return folder.replace(/^server-/, '').replace(/-\d{4}-\d\d-\d\dT[\d-]+Z$/, '');
}

async function readOutcome({ scenario, scored }: Listed, results: string, folders: string[]): Promise<ScenarioOutcome> {
  // One scenario's name may be the beginning of another's.
  const folder = folders.find((name) => scenarioOf(name) === scenario);
  const checks = await readChecks(join(results, folder ?? '', 'checks.json'));
  const count = (status: Check['status']) => checks.filter((check) => check.status === status).length;
  const [passed, failed, warned] = [count('SUCCESS'), count('FAILURE'), count('WARNING')];
  const told = checks.filter(({ id }) => !LOG_LINES.includes(id)).map(({ id, status }) => `${id}=${status}`);
  return { scenario, scored, passed, failed, warned, ok: failed === 0 && passed > 0, checks: told.sort() };
}

// A scenario that crashed leaves no file, and that is a failure; one that was skipped leaves a file to say so.
async function readChecks(path: string): Promise<Check[]> {
  try {
    return JSON.parse(await readFile(path, 'utf8')) as Check[];
  } catch {
    return [{ id: 'no-results', status: 'FAILURE' }];
  }
}
