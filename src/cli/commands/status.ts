import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import {
  type GatewayEntry,
  isProcessRunning,
  isSocketAnswering,
  listGatewayProcesses,
} from '../../entrances/control/gateway-registry.ts';
import type { AnswerOf } from '../../entrances/control/routes.ts';
import { AmbitError, isAmbitError } from '../../errors.ts';
import { escapeControls } from '../../lib/text/escape-controls.ts';
import { formatCount } from '../../lib/text/format-count.ts';
import { type Command, type Invocation, jsonFlag, readFlag, requirePositional, UsageError } from '../command.ts';
import { followGatewayLog, gatewayLogFile, printGatewayLog } from '../io/background.ts';
import { loadConfiguration } from '../io/config-paths.ts';
import {
  composeRequest,
  controlRequest,
  isUnreachable,
  openGatewayStream,
  requestOverSocket,
  runningGatewayRequest,
} from '../io/control-request.ts';
import { findGateway, type GatewayTarget, isSamePath, omitStoreNote, shortenPath } from '../io/find-gateway.ts';
import {
  describeLastError,
  formatLocalTime,
  printData,
  renderPairs,
  renderTable,
  watchReader,
  writeLine,
} from '../io/output.ts';
import { showProgress } from '../io/progress.ts';

type GatewayStatus = AnswerOf<'GET /api/v1/status'>;
type LogLine = AnswerOf<'GET /api/v1/servers/{id}/logs'>['lines'][number];

const say = (line: string) => void process.stderr.write(`ambit: ${escapeControls(line)}\n`);

export const statusCommand: Command = {
  help: 'Show the running gateway, its sessions and servers',
  flags: { json: jsonFlag },
  async run(invocation) {
    const target = await findGateway(invocation);
    omitStoreNote(invocation);
    const status = await readStatus(invocation, target);
    printData(invocation, status, () => renderStatus(status));
    if (status.gateway !== null) return undefined;
    say(
      existsSync(target.configFile)
        ? 'Start a gateway with "ambit serve", or in the background with "ambit serve --background".'
        : 'Write a configuration with "ambit init", then start a gateway with "ambit serve".',
    );
    return undefined;
  },
};

async function readStatus(invocation: Invocation, target: GatewayTarget): Promise<GatewayStatus> {
  try {
    // Without a data directory there is no store to look at, and a look must not make one.
    if (existsSync(target.dataDir)) return await controlRequest(invocation, 'GET /api/v1/status');
    return await runningGatewayRequest(invocation, 'GET /api/v1/status');
  } catch (error) {
    if (!isUnreachable(error)) throw error;
  }
  const config = existsSync(target.configFile) ? await loadConfiguration(target) : undefined;
  const names = Object.entries(config?.servers ?? {}).filter(([, { disabled }]) => !disabled);
  return {
    gateway: null,
    configFile: target.configFile,
    dataDir: target.dataDir,
    sessions: { total: 0, direct: 0, sandboxed: 0 },
    servers: { total: names.length, states: {}, troubled: [] },
    processes: null,
    store: { kind: config?.store.kind ?? 'sqlite', reachable: true },
  };
}

function renderStatus(status: GatewayStatus): string {
  const { gateway, configFile, dataDir, sessions, servers, processes, store } = status;
  const missing = existsSync(configFile) ? '' : ' (does not exist)';
  const ofGateway: [string, string][] =
    gateway === null
      ? [['Gateway', 'not running']]
      : [
          ['Gateway', gateway.url ?? 'running, without an address'],
          ...(gateway.url === null ? [] : ([['MCP', `${gateway.url}/mcp`]] as [string, string][])),
          ['Process', `pid ${gateway.pid}, ${gateway.logFile === null ? 'in the foreground' : 'in the background'}`],
          ['Version', gateway.version],
          ['Running for', describeUptime(Date.now() - Date.parse(gateway.startedAt))],
        ];
  const pairs: [string, string][] = [
    ...ofGateway,
    ['Configuration', `${shortenPath(configFile)}${missing}`],
    ['Data', shortenPath(dataDir)],
    ...(gateway?.logFile ? ([['Log', shortenPath(gateway.logFile)]] as [string, string][]) : []),
    ['Sessions', sessions === null ? 'unknown' : describeCounts(sessions.total, sessions)],
    ['Servers', describeCounts(servers.total, servers.states)],
    ...(processes === null
      ? []
      : ([['Processes', `${processes.running} of at most ${processes.max}`]] as [string, string][])),
    ['Store', store.reachable ? store.kind : `${store.kind}, which cannot be reached now`],
  ];
  const { troubled } = servers;
  if (troubled.length === 0) return renderPairs(pairs);
  const rows = troubled
    .slice(0, maxTroubled)
    .map(({ name, state, lastError }) => [name, state, describeTrouble(name, state, lastError)]);
  const more = troubled.length > maxTroubled ? `\n… and ${troubled.length - maxTroubled} more` : '';
  const table = renderTable(['SERVER', 'STATE', 'REASON'], rows, { keepWidth: ['SERVER', 'STATE'] });
  return `${renderPairs(pairs)}\n\n${table}${more}\nMore: "ambit server list", "ambit logs SERVER".`;
}

/** As many as fit on a screen of 24 lines below the rest. */
const maxTroubled = 8;

function describeTrouble(name: string, state: string, lastError: { at: string; message: string } | null): string {
  if (state === 'unapproved') return `approve it with "ambit server approve ${name}"`;
  return describeLastError(name, lastError);
}

/** Counts in words, such as "3: 2 running, 1 idle". */
function describeCounts(total: number, parts: Readonly<Record<string, number>>): string {
  const named = Object.entries(parts).filter(([name, count]) => name !== 'total' && count > 0);
  if (total === 0 || named.length === 0) return String(total);
  return `${total}: ${named.map(([name, count]) => `${count} ${name}`).join(', ')}`;
}

const units: readonly (readonly [name: string, seconds: number])[] = [
  ['day', 86_400],
  ['hour', 3600],
  ['minute', 60],
  ['second', 1],
];

/** A duration in its two largest units, such as "2 hours 5 minutes". */
export function describeUptime(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const first = units.findIndex(([, size]) => seconds >= size);
  if (first === -1) return 'less than a second';
  let rest = seconds;
  const parts = units.slice(first, first + 2).map(([name, size]) => {
    const count = Math.floor(rest / size);
    rest -= count * size;
    return count === 0 ? '' : formatCount(count, name);
  });
  return parts.filter((part) => part !== '').join(' ');
}

const defaultLines = 100;
const maxLines = 1000;

export const logsCommand: Command = {
  operands: '[SERVER]',
  help: 'Show the stderr of a server, or the log of the gateway',
  flags: {
    follow: { type: 'boolean', short: 'f', help: 'Wait for new lines until Ctrl-C' },
    lines: { type: 'string', short: 'n', value: 'N', help: `Show at most N lines; default: ${defaultLines}` },
    session: { type: 'string', value: 'ID', help: 'Show only lines of this session' },
    json: { type: 'boolean', help: 'Print one JSON object per line' },
  },
  async run(invocation) {
    const lines = readLines(invocation);
    const session = readFlag(invocation, 'session');
    const follows = invocation.flags['follow'] === true;
    if (invocation.positionals.length === 0) {
      if (session !== undefined) throw new UsageError('--session needs the name of a server: ambit logs SERVER');
      const file = gatewayLogFile((await findGateway(invocation)).dataDir);
      const print = (line: string) => writeLine(invocation, { line }, escapeControls(line));
      const end = await printGatewayLog(file, lines, print);
      if (follows) await followGatewayLog(file, end, print, watchReader());
      return undefined;
    }
    const id = requirePositional(invocation, 'SERVER');
    const query = { lines, session };
    if (follows) return followServerLog(invocation, id, query);
    const request = runningGatewayRequest(invocation, 'GET /api/v1/servers/{id}/logs', { id, query });
    const log = await request.catch(explainMissingGateway);
    for (const line of log.lines) await printLogLine(invocation, line);
    if (log.lines.length === 0) say(`No process of "${id}" has written to stderr since the gateway started.`);
    return undefined;
  },
};

function explainMissingGateway(error: unknown): never {
  if (!isUnreachable(error)) throw error;
  throw new AmbitError('GATEWAY_UNREACHABLE', {
    what: 'No gateway is running, and only a running gateway has the logs of its servers.',
    hint: 'Start one with "ambit serve". For lines of earlier gateways: "ambit audit search --kind process --server NAME".',
  });
}

function readLines(invocation: Invocation): number {
  const given = readFlag(invocation, 'lines');
  if (given === undefined) return defaultLines;
  if (!/^[0-9]{1,4}$/.test(given) || Number(given) > maxLines) {
    throw new UsageError(`-n takes a whole number from 0 to ${maxLines}`);
  }
  return Number(given);
}

async function followServerLog(
  invocation: Invocation,
  id: string,
  query: { lines: number; session: string | undefined },
): Promise<number> {
  const request = composeRequest('GET /api/v1/servers/{id}/logs', { id, query: { ...query, follow: 'true' } });
  const { events, readerGone } = await openGatewayStream(invocation, request).catch(explainMissingGateway);
  for await (const { type, data } of events) await printEvent(invocation, type, data);
  if (!readerGone.aborted) say('the gateway has ended');
  return 0;
}

async function printEvent(invocation: Invocation, type: string, data: string): Promise<void> {
  if (type === 'line') await printLogLine(invocation, JSON.parse(data) as LogLine);
  if (type !== 'dropped') return;
  const { count } = JSON.parse(data) as { count: number };
  if (invocation.flags.json === true) await writeLine(invocation, { dropped: count }, '');
  else say(`${formatCount(count, 'line')} dropped`);
}

function printLogLine(invocation: Invocation, shown: LogLine): Promise<void> {
  const { at, session, pid, line } = shown;
  const text = `${formatLocalTime(new Date(at))}  ${session ?? 'shared  '}  ${pid ?? '-'}  ${escapeControls(line)}`;
  return writeLine(invocation, shown, text);
}

/** The gateway promises to end within 5 s; a machine under load gets more. */
const maxStopMs = 30_000;
const maxAnswerMs = 5000;
const pollMs = 25;

type StoppedProcess = Pick<GatewayEntry, 'pid' | 'processStart'>;

export const stopCommand: Command = {
  help: 'Stop the running gateway after its calls have finished',
  flags: { json: jsonFlag },
  async run(invocation) {
    const target = await findGateway(invocation);
    const stopping = (await askToStop(target)) ?? signalGateway(invocation, target);
    if (stopping === undefined) {
      const of = target.choice === 'named' ? ` for ${shortenPath(target.configFile)}` : '';
      throw new AmbitError('GATEWAY_UNREACHABLE', {
        what: `No gateway is running${of}.`,
        hint: 'If one runs with another configuration, name that with --config FILE.',
      });
    }
    await showProgress('Waiting for the gateway to end', waitForEnd(stopping, target.socket));
    const { pid } = stopping;
    if (invocation.flags.json === true) process.stdout.write(`${JSON.stringify({ stopped: true, pid })}\n`);
    say(`stopped the gateway of ${shortenPath(target.configFile)} (pid ${pid})`);
    return undefined;
  },
};

/** Asks the gateway to end. Undefined if it does not answer. */
async function askToStop({ socket }: GatewayTarget): Promise<StoppedProcess | undefined> {
  const request = { method: 'POST', path: '/api/v1/stop', body: undefined };
  try {
    const { status, body } = await requestOverSocket(socket, request, AbortSignal.timeout(maxAnswerMs));
    return status === 200 ? (body as StoppedProcess) : undefined;
  } catch (error) {
    if (isUnreachable(error) || !isAmbitError(error)) return undefined;
    throw error;
  }
}

/** Sends TERM to a gateway that does not answer, if its entry proves that the process is that gateway. */
function signalGateway({ env }: Invocation, target: GatewayTarget): StoppedProcess | undefined {
  const listed = listGatewayProcesses({ env, home: homedir() });
  const entry = listed.find(({ dataDir }) => isSamePath(dataDir, target.dataDir));
  if (entry === undefined) return undefined;
  if (entry.processStart === null) {
    throw new AmbitError('GATEWAY_UNREACHABLE', {
      what: `The gateway does not answer, and this system does not tell whether process ${entry.pid} is that gateway.`,
      hint: `Look at the process with "ps -p ${entry.pid}", and end it with "kill ${entry.pid}".`,
    });
  }
  say(`the gateway does not answer; sending TERM to its process (pid ${entry.pid})`);
  process.kill(entry.pid, 'SIGTERM');
  return entry;
}

async function waitForEnd(stopping: StoppedProcess, socket: string): Promise<void> {
  const until = Date.now() + maxStopMs;
  // The process of a gateway in a container cannot be seen from outside; then its socket tells.
  const isVisible = isAlive(stopping);
  while (isVisible ? isAlive(stopping) : await isSocketAnswering(socket)) {
    if (Date.now() > until) {
      throw new AmbitError('GATEWAY_UNREACHABLE', {
        what: `The gateway was asked to stop ${maxStopMs / 1000} seconds ago, and its process ${stopping.pid} still runs.`,
        hint: `Look at its log; "kill -KILL ${stopping.pid}" ends it without waiting for calls.`,
      });
    }
    await delay(pollMs);
  }
}

function isAlive({ pid, processStart }: StoppedProcess): boolean {
  if (processStart !== null) return isProcessRunning({ pid, processStart });
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
