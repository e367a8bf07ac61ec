import { setTimeout as delay } from 'node:timers/promises';
import type { Config } from '../../config/schema/schema.ts';
import { serveStdio } from '../../entrances/stdio/serve-stdio.ts';
import { AmbitError, isAmbitError } from '../../errors.ts';
import { openGateway } from '../../gateway/assembly/open-gateway.ts';
import { allServers } from '../../gateway/exchange.ts';
import type { Gateway } from '../../gateway/gateway.ts';
import type { ServerListener } from '../../gateway/observer.ts';
import type { Log } from '../../observability/log/log.ts';
import { normalizeTrust, type TrustLevel } from '../../rules/trust-level.ts';
import { sessionGoneError } from '../../sessions/session.ts';
import { readSessionVariables, type SessionEnvironment } from '../../sessions/session-environment.ts';
import { storeKinds } from '../../stores/store-kinds.ts';
import { StderrLines } from '../../upstreams/links/upstream-errors.ts';
import { type Command, type Flag, type Invocation, readFlag, trustFlag, UsageError } from '../command.ts';
import { type ConfigPaths, findConfigPaths, loadConfiguration } from '../io/config-paths.ts';
import { watchInstalls } from '../io/install-progress.ts';
import { createLog, logFlags, readLogFormat } from '../io/log-flags.ts';

export const sessionFlags: Readonly<Record<string, Flag>> = {
  workspace: { type: 'string', value: 'NAME', help: 'Workspace of the session' },
  trust: trustFlag,
  session: { type: 'string', value: 'ID', help: 'Use an existing session instead of a new one' },
  ...logFlags,
};

const maxEndMs = 15_000;
const endPauseMs = 50;

export const stdioCommand: Command = {
  help: 'Serve all servers as one MCP server on stdin and stdout',
  flags: sessionFlags,
  async run(invocation) {
    const paths = findConfigPaths(invocation);
    return serveSession(invocation, paths, await loadConfiguration(paths, createLog(invocation)));
  },
};

/** One wrapped server instead of all. */
interface WrappedServer {
  readonly name: string;
  /** False where it gets no credentials of users. */
  readonly credentials: boolean;
  /** The reason why its command cannot be started, if that is known beforehand. */
  readonly problem: AmbitError | undefined;
}

/**
 * Serves one session on stdin and stdout until the client leaves or a signal arrives. A wrapped server that does not start
 * ends it too: its requests are answered, and then the reason is thrown.
 */
export async function serveSession(
  invocation: Invocation,
  paths: ConfigPaths,
  config: Config,
  wrapped?: WrappedServer,
): Promise<number> {
  // At a terminal there is no client to answer.
  if (wrapped?.problem !== undefined && process.stdin.isTTY) throw wrapped.problem;
  const log = createLog(invocation);
  const trustLevel = readTrustFlag(invocation);
  const workspaceId = readFlag(invocation, 'workspace');
  const reference = readFlag(invocation, 'session');
  if (reference !== undefined && (trustLevel ?? workspaceId) !== undefined) {
    throw new UsageError('--session cannot be combined with --workspace or --trust: the session has its own');
  }
  const named = readSessionEnvironment(invocation.env);
  // From here on there is something to clean up, so signals need a handler.
  const stopSignal = waitForSignal();
  const { storeDir } = named;
  const printsJson = readLogFormat(invocation) === 'json';
  const onStderr = onlyIfRead(printsJson ? logStderr(log) : printStderr(wrapped === undefined));
  // The failure of a wrapped server is the error of the command, which is printed at its end.
  const start = watchFirstStart(onStderr, wrapped !== undefined && !printsJson);
  const gateway = await openGateway({
    ...paths,
    config: withEnvironment(config, named),
    log,
    environment: invocation.env,
    credentials: wrapped?.credentials ?? true,
    serverListener: start.listener,
    onInstall: watchInstalls(invocation),
    ...(storeDir === undefined ? {} : { storeDir }),
  });
  gateway.prepare();
  let ownSessionId: string | undefined;
  try {
    const joinedSessionId = await findNamedSession(gateway, config, reference, named);
    if (joinedSessionId === undefined) {
      const draft = {
        ...named.draft,
        ...(workspaceId === undefined ? {} : { workspaceId }),
        ...(trustLevel === undefined ? {} : { trustLevel }),
      };
      const { session } = await gateway.openSession(draft, 'stdio');
      ownSessionId = session.id;
    }
    const sessionId = joinedSessionId ?? (ownSessionId as string);
    const server = wrapped?.name ?? allServers;
    // A wrapped command that cannot start is the error of the command itself.
    if (wrapped?.problem === undefined) warnOfObstacles(gateway, sessionId, server);
    const ended = new Promise<void>((resolve) => {
      gateway.sessions.onEnded(({ id }) => id === sessionId && resolve());
    });
    const { stdin: input, stdout: output } = process;
    if (input.isTTY && process.stderr.isTTY) {
      process.stderr.write('ambit: waiting for an MCP client on stdin; press Ctrl-C to stop\n');
    }
    const stop = wrapped === undefined ? undefined : start.failed;
    await Promise.race([serveStdio({ gateway, server, sessionId, input, output, stop }), stopSignal, ended]);
    const failure = wrapped === undefined || start.hasSpoken() ? undefined : (start.failure() ?? wrapped.problem);
    if (failure !== undefined) throw explainStartFailure(failure);
    return 0;
  } finally {
    // No other process has a token of this session.
    if (ownSessionId !== undefined) await endSession(gateway, ownSessionId);
    await gateway.close();
    process.stdin.destroy();
  }
}

/** Prints the stderr of servers as if they had been started without Ambit; of several, with the name in front. */
function printStderr(areSeveral: boolean): ServerListener['onStderr'] {
  return (server, line) => void process.stderr.write(`${areSeveral ? `[${server}] ` : ''}${line}\n`);
}

/** The number of bytes that may wait for a client that does not read our stderr. */
const maxUnreadBytes = 1 << 20;

const ignoreError = () => {};

/** Drops lines that nobody reads; the journal has them. A client may close our stderr, which must not end us. */
function onlyIfRead(print: ServerListener['onStderr']): ServerListener['onStderr'] {
  // Once for each process, which may serve several sessions in turn.
  if (!process.stderr.listeners('error').includes(ignoreError)) process.stderr.on('error', ignoreError);
  return (server, line) => {
    if (process.stderr.writableLength < maxUnreadBytes) print(server, line);
  };
}

/** Logs the stderr of servers, for readers that expect JSON in every line. */
function logStderr(log: Log): ServerListener['onStderr'] {
  return (server, line) => log.info('server stderr', { server, line });
}

/** Watches whether a server starts at all. One that has worked before may be started again by the next call. */
function watchFirstStart(onStderr: ServerListener['onStderr'], reportsFailure: boolean) {
  let hasSpoken = false;
  let failure: unknown;
  let fail: () => void = () => {};
  const failed = new Promise<void>((accept) => {
    fail = accept;
  });
  const listener: ServerListener = {
    onStderr,
    onSpoke() {
      hasSpoken = true;
    },
    onFailed(_server, error) {
      if (hasSpoken) return false;
      failure = error;
      fail();
      return reportsFailure;
    },
  };
  return { listener, failed, failure: () => failure, hasSpoken: () => hasSpoken };
}

/** Explains to a person why the wrapped server did not start. Its own output is on stderr already. */
function explainStartFailure(failure: unknown): unknown {
  const { cause } = failure as Error;
  if (!isAmbitError(failure) || !(cause instanceof StderrLines)) return failure;
  const wrote = cause.lines.length > 0;
  return new AmbitError(failure.code, {
    what: cause.plainMessage,
    hint: wrote ? 'Its own messages are above.' : 'It wrote nothing to stderr. Run the command by itself to see why.',
  });
}

/** Names servers that cannot start, where that shows already. The client may not show why a call fails. */
function warnOfObstacles(gateway: Gateway, sessionId: string, server: string): void {
  const session = gateway.sessions.get(sessionId);
  if (session === undefined) return;
  for (const each of gateway.explain(session)) {
    if (each.server === undefined || each.obstacle === undefined) continue;
    if (server !== allServers && server !== each.name) continue;
    gateway.log.warn('server cannot start', { server: each.name, reason: each.obstacle });
  }
}

/**
 * Ends the session of this process. When many processes leave at once, the store may be locked for longer than a call
 * waits, and a session that is not ended would keep its folder and its quota until it expires.
 */
async function endSession(gateway: Gateway, id: string): Promise<void> {
  const until = Date.now() + maxEndMs;
  for (let isFirst = true; ; isFirst = false) {
    try {
      await gateway.sessions.end(id, 'closed');
      return;
    } catch (error) {
      const fields = { session: id, error: (error as Error).message };
      if (!isAmbitError(error) || error.code !== 'STORE_UNAVAILABLE' || Date.now() >= until) {
        gateway.log.warn('session could not be ended', fields);
        return;
      }
      if (isFirst) gateway.log.warn('session not ended yet, retrying', fields);
    }
    await delay(endPauseMs);
  }
}

/** Reads `AMBIT_SESSION_ID` and its companions. An invalid value is wrong usage. */
export function readSessionEnvironment(env: NodeJS.ProcessEnv): SessionEnvironment {
  return readSessionVariables(env, (what) => new UsageError(what));
}

/** The id of the session named by flag or environment; undefined when a new one is to be opened. */
async function findNamedSession(
  gateway: Gateway,
  config: Config,
  reference: string | undefined,
  named: SessionEnvironment,
): Promise<string | undefined> {
  if (reference === undefined && named.token !== undefined) {
    const { id } = await gateway.sessions.verifyToken(named.token);
    if (named.id !== undefined && named.id !== id) {
      throw new AmbitError('UNAUTHENTICATED', { what: 'AMBIT_SESSION_TOKEN is not a token of AMBIT_SESSION_ID.' });
    }
    return id;
  }
  const wanted = reference ?? named.id;
  if (wanted === undefined) return undefined;
  const found = await gateway.sessions.find(wanted);
  if (found !== undefined && (reference !== undefined || found.id === wanted)) return found.id;
  if (reference !== undefined) throw sessionNotFound(config);
  const reason = await gateway.sessions.whyGone(wanted);
  if (reason !== undefined) throw sessionGoneError(reason);
  return undefined;
}

function sessionNotFound(config: Config): AmbitError {
  if (storeKinds[config.store.kind].isDurable) return new AmbitError('SESSION_NOT_FOUND');
  return new AmbitError('SESSION_NOT_FOUND', {
    what: 'With store.kind "memory", a session exists only in the process that opened it.',
    hint: 'Set store.kind to "sqlite" or "redis" to share sessions between processes.',
  });
}

function withEnvironment(config: Config, { includeMeta = config.sessions.includeMeta }: SessionEnvironment): Config {
  return { ...config, sessions: { ...config.sessions, includeMeta } };
}

function waitForSignal(): Promise<void> {
  return new Promise((resolve) => {
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.once(signal, () => resolve());
  });
}

function readTrustFlag(invocation: Invocation): TrustLevel | undefined {
  const trust = readFlag(invocation, 'trust');
  if (trust === undefined) return undefined;
  const level = normalizeTrust(trust);
  if (level === undefined) throw new UsageError('--trust takes "direct" or "sandboxed"');
  return level;
}
