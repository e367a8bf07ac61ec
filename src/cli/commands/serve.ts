import { once } from 'node:events';
import { type FSWatcher, watch } from 'node:fs';
import { homedir } from 'node:os';
import { basename, dirname } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { listWorkspaceFolders } from '../../config/load/workspace-folders.ts';
import { findListenProblems } from '../../config/schema/listen-rules.ts';
import {
  announceStart,
  isSocketAnswering,
  listRunningGateways,
  registerGateway,
} from '../../entrances/control/gateway-registry.ts';
import { listenControlForDataDir } from '../../entrances/control/listen-control.ts';
import { createConsoleLink, localName } from '../../entrances/control/routes/consoles.ts';
import { controlSocketPath } from '../../entrances/control/socket-path.ts';
import { listenHttp } from '../../entrances/http/listen-http.ts';
import { AmbitError, isAmbitError } from '../../errors.ts';
import { openGateway } from '../../gateway/assembly/open-gateway.ts';
import type { Gateway } from '../../gateway/gateway.ts';
import type { Log } from '../../observability/log/log.ts';
import { findLaunchObstacle } from '../../upstreams/access/launch-obstacle.ts';
import type { ServerDefinition } from '../../upstreams/definition.ts';
import { createRateLimit } from '../../upstreams/links/relay/rate-limit.ts';
import { type Command, readFlag, UsageError } from '../command.ts';
import { isTerminal, printLines } from '../io/ask.ts';
import { openBackgroundChild, startInBackground } from '../io/background.ts';
import { type ConfigPaths, findConfigPaths, loadConfiguration } from '../io/config-paths.ts';
import { quotePath, shortenPath } from '../io/find-gateway.ts';
import { watchInstalls } from '../io/install-progress.ts';
import { createLog, logFlags } from '../io/log-flags.ts';
import { askForApprovals } from './server-approve.ts';

const settleMs = 100;

// Five seconds are promised. A server that ignores all signals but KILL takes two, and cleaning up needs some too.
const drainMs = 1500;

export const serveCommand: Command = {
  help: 'Start the gateway over HTTP',
  flags: {
    host: { type: 'string', value: 'HOST', help: 'Address to listen on; default: 127.0.0.1' },
    port: { type: 'string', value: 'PORT', help: 'Port to listen on; default: 7420; 0 for a free one' },
    background: { type: 'boolean', help: 'Start detached, and return when it is ready' },
    json: { type: 'boolean', help: 'Print one line of JSON when ready' },
    ...logFlags,
  },
  async run(invocation) {
    const log = createLog(invocation);
    const askedPort = readPort(invocation.flags.port);
    const paths = findConfigPaths(invocation);
    const config = await loadConfiguration(paths, log);
    const host = readFlag(invocation, 'host') ?? config.listen.host;
    const [problem] = findListenProblems({ ...config.auth, host, behindProxy: config.listen.behindProxy });
    if (problem !== undefined) throw new AmbitError('CONFIG_INVALID', { what: `--host ${host}: ${problem.message}.` });
    const background = openBackgroundChild(invocation);
    if (invocation.flags['background'] === true) await assertNotRunning(paths, invocation.env);
    await askForApprovals(invocation, paths, log);
    if (invocation.flags['background'] === true) return startInBackground(invocation, paths, config);
    raiseInliningBudget();
    logUnhandledRejections(log);
    // From here on there is something to clean up, so signals need a handler.
    let stop = () => {};
    const stopRequest = new Promise<void>((resolve) => {
      stop = resolve;
    });
    const signals = [once(process, 'SIGTERM'), once(process, 'SIGINT')];
    const stopSignal = Promise.race([
      ...signals,
      stopRequest,
      ...(background === undefined ? [] : [background.abandoned]),
    ]);
    const socket = controlSocketPath(paths.dataDir, invocation.env);
    // Removed when the gateway is ready or has failed.
    const endStart = announceStart({ ...paths, socket }, { env: invocation.env, home: homedir() });
    const gateway = await openGateway({
      config,
      ...paths,
      log,
      environment: invocation.env,
      onInstall: watchInstalls(invocation),
      logFile: background?.logFile,
    }).catch((error: unknown) => {
      endStart();
      throw error;
    });
    let removeEntry = () => {};
    try {
      let url = config.listen.publicUrl;
      const control = await listenControlForDataDir(gateway, paths.dataDir, invocation.env, () => url, stop);
      const address = { host, port: askedPort ?? config.listen.port };
      const http = await listenHttp(gateway, address, log).catch(async (error: NodeJS.ErrnoException) => {
        await control.close();
        throw await listenError(error, address, invocation.env);
      });
      url ??= http.url;
      gateway.prepare();
      removeEntry = await listGateway(paths, http.url, invocation.env, log);
      endStart();
      const ready = { url: http.url, mcpUrl: `${http.url}/mcp`, adminUrl: `${http.url}/` };
      if (invocation.flags.json === true) process.stdout.write(`${JSON.stringify(ready)}\n`);
      log.info('listening', { url: http.url });
      log.info('control API', { url: `${http.url}/api/v1` });
      log.info('admin token', { file: http.adminTokenFile });
      const folders = listWorkspaceFolders(config);
      for (const server of gateway.servers().values()) logServer(server, http.url, folders, log);
      const watching = watchConfig(paths.configFile, gateway, log);
      background?.ready(ready);
      if (background === undefined && isTerminal() && invocation.flags.json !== true) {
        const link = createConsoleLink(gateway.running.consoles, url, { role: 'admin', by: localName });
        printLines([
          `Open the console: ${link.url} (valid for 60 s; "ambit open" makes a new one)`,
          `MCP clients connect to ${url}/mcp`,
          `To set one up: ambit client NAME --url ${url}/mcp`,
          'Ctrl-C stops the gateway.',
        ]);
      }
      await stopSignal;
      // Removed first, so that no command chooses a gateway that is ending.
      removeEntry();
      watching.close();
      log.info('shutting down');
      gateway.stopWaiting();
      await control.close();
      await http.close(drainMs);
      return 0;
    } finally {
      background?.close();
      endStart();
      removeEntry();
      await gateway.close();
    }
  },
};

/**
 * Lets V8 inline more of the functions that a call passes, which takes about a tenth off its processor time. The flag
 * decides only how functions are compiled from now on. It is set here and not in the library, whose process is not ours.
 */
function raiseInliningBudget(): void {
  setFlagsFromString('--max-inlined-bytecode-size-cumulative=4000');
}

/**
 * Logs an error that no code handles, and goes on. Node would end the process, and with it the calls of all sessions, for
 * a mistake that concerns one of them.
 */
function logUnhandledRejections(log: Log): void {
  const rate = createRateLimit(1);
  process.on('unhandledRejection', (error: unknown) => {
    if (rate.admit()) log.warn('unexpected failure', { error: String((error as Error)?.stack ?? error) });
  });
}

/** Lists this gateway for commands that do not name one. Returns a function that removes it again. */
async function listGateway(paths: ConfigPaths, url: string, env: NodeJS.ProcessEnv, log: Log): Promise<() => void> {
  const socket = controlSocketPath(paths.dataDir, env);
  const { folder, problems, remove } = await registerGateway({ ...paths, socket, url }, { env, home: homedir() });
  if (folder === undefined) {
    const hint = 'Commands find this gateway only with --config.';
    log.warn('not listed among the running gateways', { why: problems.join('; '), hint });
  }
  return remove;
}

function logServer(server: ServerDefinition, url: string, folders: readonly string[], log: Log): void {
  const { name } = server;
  const obstacle =
    server.kind === 'stdio'
      ? findLaunchObstacle(server, {
          searchPath: server.env['PATH'] ?? process.env['PATH'],
          folders,
          isSandboxed: !server.trust.includes('direct'),
        })
      : undefined;
  if (obstacle === undefined) log.info('serving', { server: name, url: `${url}/mcp/${name}` });
  else log.warn('server cannot start', { server: name, reason: obstacle });
}

/** Reasons why a socket cannot listen, by their code, with the remedy. */
const listenProblems: Readonly<Record<string, readonly [why: string, hint: string]>> = {
  EADDRINUSE: [
    'another program uses this port',
    'End that program, or choose another port with --port PORT; --port 0 takes any free one.',
  ],
  EACCES: ['ports below 1024 are for root', 'Choose a port from 1024 on with --port PORT.'],
  EADDRNOTAVAIL: ['this machine has no such address', 'Name an address of this machine with --host HOST.'],
  ENOTFOUND: ['there is no host of this name', 'Name an address of this machine with --host HOST.'],
};

async function listenError(
  error: NodeJS.ErrnoException,
  { host, port }: { host: string; port: number },
  env: NodeJS.ProcessEnv,
): Promise<Error> {
  if (isAmbitError(error)) return error;
  const holder = error.code === 'EADDRINUSE' ? await findGatewayOnPort(port, env) : undefined;
  if (holder !== undefined) {
    const flag = `--config ${quotePath(holder.configFile)}`;
    return new AmbitError('CONFIG_INVALID', {
      what: `The gateway cannot listen on ${host}:${port}: the gateway of ${shortenPath(holder.configFile)} (pid ${holder.pid}) uses this port.`,
      hint: `Look at it with "ambit status ${flag}", end it with "ambit stop ${flag}", or choose another port with --port PORT.`,
    });
  }
  const [why, hint] = listenProblems[error.code ?? ''] ?? [error.message, 'Choose another port with --port PORT.'];
  return new AmbitError('CONFIG_INVALID', { what: `The gateway cannot listen on ${host}:${port}: ${why}.`, hint });
}

async function findGatewayOnPort(port: number, env: NodeJS.ProcessEnv) {
  const running = await listRunningGateways({ env, home: homedir() });
  return running.find(({ url }) => url !== undefined && URL.canParse(url) && new URL(url).port === String(port));
}

/** Throws if a gateway is running on the data directory. */
async function assertNotRunning({ configFile, dataDir }: ConfigPaths, env: NodeJS.ProcessEnv): Promise<void> {
  const listed = (await listRunningGateways({ env, home: homedir() })).find((entry) => entry.dataDir === dataDir);
  if (listed === undefined && !(await isSocketAnswering(controlSocketPath(dataDir, env)))) return;
  const at = listed?.url === undefined ? '' : ` at ${listed.url}`;
  const pid = listed === undefined ? '' : ` (pid ${listed.pid})`;
  throw new AmbitError('CONFIG_INVALID', {
    what: `A gateway of ${shortenPath(configFile)} is running already${at}${pid}.`,
    hint: 'Look at it with "ambit status", or end it with "ambit stop".',
  });
}

function readPort(flag: unknown): number | undefined {
  if (typeof flag !== 'string') return undefined;
  const port = Number(flag);
  if (!/^[0-9]{1,5}$/.test(flag) || port > 65535) throw new UsageError('--port takes a number from 0 to 65535');
  return port;
}

/**
 * Reloads when the configuration changes, or on SIGHUP. An invalid configuration is refused and the gateway keeps the
 * old one.
 */
function watchConfig(file: string, gateway: Gateway, log: Log): { close(): void } {
  let timer: NodeJS.Timeout | undefined;
  let reloading = Promise.resolve();

  async function reload(): Promise<void> {
    try {
      const { changed, warnings } = await gateway.reloadFile();
      watchAll();
      for (const warning of warnings) log.warn('configuration', { warning });
      log.info('configuration reloaded', { changed: changed.length === 0 ? undefined : changed.join(', ') });
    } catch (error) {
      const lines = (error as Error).message.split('\n');
      log.warn('configuration rejected, the previous one stays in use', { error: lines.length > 1 ? lines : lines[0] });
    }
  }

  function scheduleReload(): void {
    clearTimeout(timer);
    timer = setTimeout(() => {
      reloading = reloading.then(reload);
    }, settleMs);
  }

  /** The watched folders. Files are not watched, since editors replace them. */
  const watchers = new Map<string, FSWatcher>();
  function watchAll(): void {
    const files = [file, ...gateway.config.include];
    for (const folder of new Set(files.map((each) => dirname(each)))) {
      if (watchers.has(folder)) continue;
      try {
        const names = () =>
          [file, ...gateway.config.include].filter((each) => dirname(each) === folder).map((each) => basename(each));
        const watcher = watch(folder, (_event, name) => {
          if (name === null || names().includes(name)) scheduleReload();
        });
        watcher.on('error', () => {});
        watchers.set(folder, watcher);
      } catch {
        // A folder that does not exist yet is tried again at the next reload.
      }
    }
  }
  watchAll();
  process.on('SIGHUP', scheduleReload);
  return {
    close() {
      clearTimeout(timer);
      for (const watcher of watchers.values()) watcher.close();
      process.off('SIGHUP', scheduleReload);
    },
  };
}
