import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { sep } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Config } from '../../config/schema/schema.ts';
import {
  type GatewayEntry,
  listRunningGateways,
  listStartingGateways,
} from '../../entrances/control/gateway-registry.ts';
import { controlSocketPath } from '../../entrances/control/socket-path.ts';
import { resolveIfPresent } from '../../lib/fs/if-present.ts';
import { escapeControls } from '../../lib/text/escape-controls.ts';
import { type Invocation, readFlag, UsageError } from '../command.ts';
import { type ConfigPaths, findConfigPaths, loadConfiguration } from './config-paths.ts';
import { paintText } from './output.ts';
import { clearProgress, showProgress } from './progress.ts';

/** The configuration and store that a command works on, and the socket of the gateway that may serve them. */
export interface GatewayTarget extends ConfigPaths {
  readonly socket: string;
  /** Whether flags or the environment named it, it was found running, or it is the default of this user. */
  readonly choice: 'named' | 'running' | 'default';
}

interface FindGatewayOptions {
  /** Takes the default where several gateways are running, instead of asking for one of them. */
  readonly orDefault?: boolean;
}

const targets = new WeakMap<Invocation, Promise<GatewayTarget>>();
const saidLines = new WeakMap<Invocation, Set<string>>();
/** Commands that do not say which store they work on. */
const silent = new WeakSet<Invocation>();

/**
 * Finds the gateway that a command is meant for. Flags and the environment decide; without them it is the one gateway
 * that this user has running. The answer holds for the whole command, and stderr names the chosen gateway.
 */
export function findGateway(invocation: Invocation, options: FindGatewayOptions = {}): Promise<GatewayTarget> {
  const known = targets.get(invocation) ?? chooseGateway(invocation, options);
  targets.set(invocation, known);
  return known;
}

/** Loads the configuration that a command is meant for, for commands that work on files and need no gateway. */
export async function loadTargetConfiguration(
  invocation: Invocation,
): Promise<{ readonly paths: GatewayTarget; readonly config: Config }> {
  const paths = await findGateway(invocation);
  const config = await loadConfiguration(paths);
  announceConfiguration(invocation, paths);
  return { paths, config };
}

async function chooseGateway(
  invocation: Invocation,
  { orDefault = false }: FindGatewayOptions,
): Promise<GatewayTarget> {
  const { env } = invocation;
  const located = findConfigPaths(invocation);
  const namesConfig = isNamed(invocation, 'config', 'AMBIT_CONFIG');
  const namesDataDir = isNamed(invocation, 'data-dir', 'AMBIT_DATA_DIR');
  const choice = namesConfig || namesDataDir ? 'named' : 'default';
  const usual = { ...located, socket: controlSocketPath(located.dataDir, env), choice } as const;
  if (namesConfig && namesDataDir) return usual;
  const isMeant = (entry: GatewayEntry) =>
    (!namesConfig || isSamePath(entry.configFile, located.configFile)) &&
    (!namesDataDir || isSamePath(entry.dataDir, located.dataDir));
  const running = await listReadyGateways(env, isMeant);
  const fitting = namesConfig ? running.filter(({ dataDir }) => isSamePath(dataDir, located.dataDir)) : [];
  const [entry, ...others] = fitting.length > 0 ? fitting : running;
  if (entry === undefined || (others.length > 0 && orDefault)) return usual;
  if (others.length > 0) throw severalRunningError(running, namesConfig);
  const { configFile, dataDir, socket, pid } = entry;
  if (choice === 'named') return { configFile, dataDir, socket, choice };
  sayOnce(invocation, `using the running gateway of ${shortenPath(configFile)} (pid ${pid})`);
  return { configFile, dataDir, socket, choice: 'running' };
}

const maxStartMs = 15_000;
const pollMs = 25;

/** Lists the running gateways that are meant. If there is none but one is starting, waits until it is ready. */
async function listReadyGateways(
  env: NodeJS.ProcessEnv,
  isMeant: (entry: GatewayEntry) => boolean,
): Promise<GatewayEntry[]> {
  const places = { env, home: homedir() };
  const list = async () => (await listRunningGateways(places)).filter(isMeant);
  const running = await list();
  if (running.length > 0) return running;
  const listStarting = () => listStartingGateways(places).filter(isMeant);
  const [starting] = listStarting();
  if (starting === undefined) return list();
  const until = Date.now() + maxStartMs;
  const waitForReady = async () => {
    while (listStarting().length > 0 && Date.now() < until) await delay(pollMs);
  };
  await showProgress(`Waiting for the gateway of ${shortenPath(starting.configFile)}`, waitForReady());
  return list();
}

/** Says whether a gateway is running that takes over a changed configuration by itself. */
export async function describeReload({ env }: Invocation, { configFile }: ConfigPaths): Promise<string[]> {
  const running = await listRunningGateways({ env, home: homedir() });
  return running.some((entry) => isSamePath(entry.configFile, configFile)) ? ['The running gateway reloads it.'] : [];
}

/** Says that a gateway answered, if the command was not told which one to use. */
export function announceGateway(invocation: Invocation, { choice, configFile }: GatewayTarget): void {
  if (choice === 'default') sayOnce(invocation, `using the running gateway of ${shortenPath(configFile)}`);
}

/** Leaves out the note about the store, for commands whose output says the same. */
export function omitStoreNote(invocation: Invocation): void {
  silent.add(invocation);
}

/** Says which store a command works on, because no gateway answered. */
export function announceStore(invocation: Invocation, { choice, configFile, dataDir }: GatewayTarget): void {
  if (silent.has(invocation)) return;
  const without = choice === 'named' ? 'no gateway is running for this configuration' : 'no gateway is running';
  const [file, folder] = [configFile, dataDir].map(shortenPath);
  const store = existsSync(configFile)
    ? `using the store of ${file} (${folder})`
    : `using the store in ${folder} (there is no configuration at ${file})`;
  sayOnce(invocation, `${without}; ${store}`);
}

/** Says which configuration a command reads, if it was not told which one. */
export function announceConfiguration(invocation: Invocation, { choice, configFile }: GatewayTarget): void {
  if (choice === 'default') sayOnce(invocation, `using the configuration ${shortenPath(configFile)}`);
}

function isNamed(invocation: Invocation, flag: string, variable: string): boolean {
  return readFlag(invocation, flag) !== undefined || (invocation.env[variable] ?? '') !== '';
}

export function isSamePath(one: string, other: string): boolean {
  return one === other || resolveIfPresent(one) === resolveIfPresent(other);
}

function severalRunningError(running: readonly GatewayEntry[], namesConfig: boolean): UsageError {
  const lines = running.map(({ configFile, dataDir, pid, startedAt }) => {
    const isDoubled = running.filter((each) => each.configFile === configFile).length > 1;
    const flags = `--config ${quotePath(configFile)}${isDoubled ? ` --data-dir ${quotePath(dataDir)}` : ''}`;
    return `  ${flags}  (pid ${pid}, since ${startedAt})`;
  });
  const which = namesConfig ? `${running.length} gateways of this configuration` : `${running.length} gateways`;
  const flags = namesConfig ? '--config FILE --data-dir DIR' : '--config FILE';
  return new UsageError([`${which} are running:`, ...lines].join('\n'), `Choose one with ${flags}.`);
}

/** Quotes a path for a shell where it needs that. Control characters are escaped when the line is printed. */
export function quotePath(path: string): string {
  return /^[\w@%+=:,./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''").replaceAll('\n', '\\n')}'`;
}

/** Shows a path below the home folder with `~`. */
export function shortenPath(path: string): string {
  const home = homedir();
  return home.length > 1 && path.startsWith(home + sep) ? `~${path.slice(home.length)}` : path;
}

function sayOnce(invocation: Invocation, line: string): void {
  const said = saidLines.get(invocation) ?? new Set();
  saidLines.set(invocation, said);
  if (said.has(line)) return;
  said.add(line);
  clearProgress();
  process.stderr.write(`${paintText('dim', 'ambit:', process.stderr)} ${escapeControls(line)}\n`);
}
