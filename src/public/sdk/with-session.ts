import {
  type CallHeaders,
  type CallSource,
  type IncomingCall,
  isObject,
  type KnownCall,
  readMetaContext,
  toIncomingCall,
} from './call.ts';
import {
  ContextError,
  createAbsentContext,
  type ErrorResult,
  findRefusalReason,
  freezeContext,
  isSessionError,
  refuseContext,
  type SessionContext,
  SessionError,
  toErrorResult,
  type VerifiedContext,
} from './context.ts';
import {
  type ActiveCall,
  activeCall,
  type Environment,
  readInheritedContext,
  startEnvironment,
} from './current-session.ts';
import type { KeySource } from './keys.ts';
import { checkAudience, checkBinding, checkTimes, readClaims, type TokenClaims, verifyToken } from './verify-token.ts';
import { type SecurableServer, wrapHandlers } from './wrap-handlers.ts';

export interface ContextOptions {
  /**
   * The name of this server. Required over HTTP: its address exactly as in Ambit's configuration. Over stdio
   * `ambit:server:<name>`; any name of that form is accepted if neither this nor `AMBIT_AUDIENCE` is given.
   */
  readonly audience?: string | readonly string[] | undefined;
  /** The accepted issuer; by default any whose key is among the keys. */
  readonly issuer?: string | undefined;
  /**
   * The public keys to verify with; by default `jwksUri`, else `AMBIT_JWKS`. Over stdio the key of this process in
   * `AMBIT_CONTEXT_KEY_FILE` is used in addition.
   */
  readonly keys?: KeySource | undefined;
  /** The address of the keys: the gateway's `/.well-known/jwks.json`. */
  readonly jwksUri?: string | undefined;
  /** The accepted difference between clocks. Default 5 seconds. */
  readonly clockSkewSeconds?: number | undefined;
  /** The memory of used tokens; by default in this process. */
  readonly replays?: ReplayMemory | undefined;
  /** Set `http` for a network transport that shows no headers: the environment is then not the caller's. */
  readonly transport?: 'stdio' | 'http' | undefined;
  /** Replaces the environment this process was started with. */
  readonly env?: Environment | undefined;
  /** Milliseconds since 1970; for tests. */
  readonly now?: (() => number) | undefined;
}

/** The method, name and arguments of the call, if the last argument of the handler does not have them. */
export interface ReadOptions extends ContextOptions, Pick<KnownCall, 'method' | 'name' | 'arguments'> {}

/**
 * Reads the context of a call: `_meta["ambit/context"]`, else the header `Txn-Token`, else, over stdio, the environment.
 * It never throws. A context that was sent and is not valid gives `absent` with the reason, never the environment.
 */
export async function readContext(source?: CallSource, options?: ReadOptions): Promise<SessionContext> {
  const outer = activeCall.getStore();
  if (source === undefined) return outer?.context ?? readInheritedContext(options?.env);
  let call = toIncomingCall(source, options);
  if (outer !== undefined && outer.call.carrier !== undefined && outer.call.carrier === call.carrier) {
    if (options === undefined) return outer.context;
    call = { ...call, ...pickKnownCall(outer.call), ...pickKnownCall(options) };
  }
  return readCallContext(call, options);
}

function pickKnownCall({ method, name, arguments: given }: KnownCall): Partial<IncomingCall> {
  return {
    ...(method === undefined ? {} : { method }),
    ...(name === undefined ? {} : { name }),
    ...(given === undefined ? {} : { arguments: given }),
  };
}

export async function readCallContext(call: IncomingCall, options: ContextOptions = {}): Promise<SessionContext> {
  try {
    const plain = readMetaContext(call.meta);
    const token = plain === undefined ? readHeaderToken(call.headers) : readMetaToken(plain);
    if (token !== undefined) return await verifyContext(token, plain, call, options);
  } catch (error) {
    if (error instanceof ContextError) return createAbsentContext(error.code, error.message);
    return createAbsentContext('CONTEXT_MALFORMED', 'The context could not be read.');
  }
  // The environment of an HTTP server describes who started it, not who calls it.
  if (call.transport === 'http')
    return createAbsentContext('NO_CONTEXT', 'The call has no context: it did not come through Ambit.');
  return readInheritedContext(options.env);
}

async function verifyContext(
  token: string,
  plain: unknown,
  call: IncomingCall,
  options: ContextOptions,
): Promise<VerifiedContext> {
  const env = options.env ?? startEnvironment;
  const keys = {
    publicKeys: options.keys ?? options.jwksUri ?? (env.AMBIT_JWKS || undefined),
    // Ambit signs with the key of a process only what it writes to the stdin of that process.
    keyFile: call.transport === 'stdio' ? env.AMBIT_CONTEXT_KEY_FILE || undefined : undefined,
  };
  const now = options.now?.() ?? Date.now();
  const skew = options.clockSkewSeconds ?? 5;
  // Only what takes time is awaited: each await costs more than a check.
  const verified = verifyToken(token, keys);
  const claims = readClaims(verified instanceof Promise ? await verified : verified);
  if (options.issuer !== undefined && claims.issuer !== options.issuer) {
    refuseContext('ISSUER_MISMATCH', 'The token was not issued by the gateway this server expects.');
  }
  const audience = options.audience ?? (env.AMBIT_AUDIENCE || undefined);
  checkAudience(claims, typeof audience === 'string' ? [audience] : audience, call);
  checkTimes(claims, now, skew);
  checkBinding(claims, call);
  const until = (claims.expiresAt + skew) * 1000;
  const remembered = assertNotReplayed(claims, call, { now, until, memory: options.replays });
  if (remembered !== undefined) await remembered;
  return createVerifiedContext(claims, plain, call);
}

/** The signed values that are also beside the token. */
const signedNames = ['sessionId', 'correlationId', 'userId', 'agentId', 'workspaceId', 'trustLevel'] as const;

function createVerifiedContext(claims: TokenClaims, plain: unknown, call: IncomingCall): VerifiedContext {
  const { sessionId, correlationId, userId, agentId, workspaceId, trustLevel, permissions } = claims;
  const beside = isObject(plain) ? plain : {};
  const path = beside['workspacePath'];
  const signed = { sessionId, correlationId, userId, agentId, workspaceId, trustLevel };
  const overruled = signedNames.filter((name) => name in beside && (beside[name] || undefined) !== signed[name]);
  const facts = {
    status: 'verified' as const,
    ...signed,
    // The path is not signed. Over stdio only the process that started this one can have sent it; over HTTP anyone can.
    workspacePath: call.transport === 'stdio' && typeof path === 'string' && path !== '' ? path : undefined,
    permissions: [...permissions],
    issuedAt: claims.issuedAt * 1000,
    expiresAt: claims.expiresAt * 1000,
    reason:
      overruled.length === 0
        ? undefined
        : `The signed values replaced different unsigned values: ${overruled.join(', ')}.`,
    code: undefined,
  };
  return freezeContext<VerifiedContext>(facts, call.signal === undefined ? {} : { signal: call.signal });
}

function readMetaToken(plain: unknown): string {
  if (!isObject(plain)) refuseContext('CONTEXT_MALFORMED', '_meta["ambit/context"] is not an object.');
  const token = plain['token'];
  if (token === undefined)
    refuseContext('TOKEN_MISSING', '_meta["ambit/context"] has no token, so its origin is not proven.');
  if (typeof token !== 'string') refuseContext('TOKEN_MALFORMED', 'The token is not a string.');
  return token;
}

function readHeaderToken(headers: CallHeaders | undefined): string | undefined {
  if (headers === undefined) return undefined;
  if (typeof headers['get'] === 'function')
    return (headers as { get(name: string): string | null }).get('txn-token') ?? undefined;
  const found = Object.entries(headers)
    .filter(([name]) => name.toLowerCase() === 'txn-token')
    .flatMap(([, value]) => value ?? []) as string[];
  if (found.length > 1) refuseContext('TOKEN_MALFORMED', 'The header Txn-Token came more than once.');
  return found[0];
}

/** The memory of this process: servers are often built anew for each request. */
const replays = createReplayMemory();

/** One message may be read twice, by a wrapper and by the handler in it; that is no replay. */
const usesByMessage = new WeakMap<object, Set<string>>();

interface TokenUse {
  readonly now: number;
  readonly until: number;
  readonly memory: ReplayMemory | undefined;
}

/**
 * A memory of used tokens. Give your own, over a shared store, if several processes serve one audience: a token is valid
 * once in all of them, not once in each.
 */
export interface ReplayMemory {
  /** Says whether the id is new, and keeps it until that time (milliseconds since 1970). */
  remember(id: string, until: number, now: number): 'new' | 'seen' | 'full' | Promise<'new' | 'seen' | 'full'>;
}

/**
 * Creates a memory that keeps ids until their tokens have expired. When it is full, further tokens are refused: a
 * forgotten token could be used again.
 */
export function createReplayMemory(limit = 250_000): ReplayMemory {
  const seen = new Map<string, number>();

  function forgetExpired(now: number): void {
    // All tokens have the same lifetime, so the order of arrival is nearly the order of expiry.
    for (const [id, until] of seen) {
      if (until > now) break;
      seen.delete(id);
    }
  }

  return {
    remember(id, until, now) {
      forgetExpired(now);
      const kept = seen.get(id);
      if (kept !== undefined && kept > now) return 'seen';
      if (seen.size >= limit) return 'full';
      seen.delete(id);
      seen.set(id, until);
      return 'new';
    },
  };
}

/**
 * Throws if the token was used before, at once unless the memory takes time. This check comes last: a token refused for
 * another reason counts as unused.
 */
function assertNotReplayed(
  claims: TokenClaims,
  call: IncomingCall,
  { now, until, memory = replays }: TokenUse,
): Promise<void> | undefined {
  const id = `${claims.issuer} ${claims.id}`;
  const use = `${typeof call.id} ${call.id} ${id}`;
  if (call.carrier !== undefined && usesByMessage.get(call.carrier)?.has(use)) return undefined;
  const answer = rememberOrFail(memory, id, until, now);
  if (answer instanceof Promise) return answer.then((late) => acceptUse(late, call, use));
  acceptUse(answer, call, use);
  return undefined;
}

function acceptUse(answer: unknown, call: IncomingCall, use: string): void {
  if (answer === 'seen')
    refuseContext('TOKEN_REPLAYED', 'The token has already been used; each token is valid for one call.');
  if (answer !== 'new') {
    refuseContext(
      'REPLAYS_UNKNOWN',
      'The server cannot check at the moment whether the token was already used. Try again in a minute.',
    );
  }
  if (call.carrier === undefined) return;
  const uses = usesByMessage.get(call.carrier);
  if (uses === undefined) usesByMessage.set(call.carrier, new Set([use]));
  else uses.add(use);
}

/** Asks the memory. A memory that fails, at once or later, accepts nothing. */
function rememberOrFail(memory: ReplayMemory, id: string, until: number, now: number): unknown {
  try {
    const answer: unknown = memory.remember(id, until, now);
    // A memory of someone else may return any kind of thenable.
    return typeof answer === 'string' ? answer : Promise.resolve(answer).catch(() => 'failed');
  } catch {
    return 'failed';
  }
}

export interface HandlerOptions extends ContextOptions {
  /** `run` runs a call whose token was refused, with an absent context. By default it is answered with the reason. */
  readonly onRefused?: 'refuse' | 'run' | undefined;
}

/**
 * Runs a tool's handler inside the context of its call. It compares the token with the arguments that the handler
 * receives, so the tool's schema must neither fill in defaults nor drop members; `secureServer()` has no such limit.
 */
export function withSession<A extends unknown[], R>(
  name: string,
  handler: (...given: A) => R | Promise<R>,
  options: HandlerOptions = {},
): (...given: A) => Promise<R | ErrorResult> {
  return async (...given) => {
    const extra = given.at(-1);
    if (!isObject(extra)) throw new TypeError(`The handler of "${name}" was called without the SDK's last argument.`);
    const call = toIncomingCall(extra as CallSource, {
      method: 'tools/call',
      name,
      arguments: given.length > 1 ? given[0] : undefined,
      transport: options.transport,
    });
    try {
      return await runInContext(call, options, async () => await handler(...given));
    } catch (error) {
      if (isSessionError(error)) return toErrorResult(error);
      throw error;
    }
  };
}

/**
 * Runs the handler of a call inside its context, or throws if the context was refused. A context that an outer wrapper
 * has read already is used as it is: the outer wrapper saw the request before any schema changed it.
 */
async function runInContext<R>(
  call: IncomingCall,
  options: HandlerOptions,
  run: (active: ActiveCall) => Promise<R>,
): Promise<R> {
  const outer = activeCall.getStore();
  if (outer?.call.carrier !== undefined && outer.call.carrier === call.carrier) return run(outer);
  const context = await readCallContext(call, options);
  const refused = findRefusalReason(context);
  if (refused !== undefined && options.onRefused !== 'run') throw createRefusedError(refused);
  const active: ActiveCall = { call, context };
  return activeCall.run(active, () => run(active));
}

/** The error for a token that was sent and is not valid. */
export function createRefusedError(reason: string): SessionError {
  const hint = 'Nothing was done. Try again. If it keeps failing, tell the person who runs this server.';
  return new SessionError('CONTEXT_REFUSED', reason, hint);
}

/**
 * Makes every handler run inside the context of its call, read from the request before any schema changed it. It covers
 * handlers that are registered later, so call it right after the server was created.
 */
export function secureServer<S extends SecurableServer>(server: S, options: HandlerOptions = {}): S {
  const wrapping = { calledAs: 'secureServer', transport: options.transport };
  return wrapHandlers(server, wrapping, ({ call, method }, run) => {
    // Lists are always answered: a client that sees no tools would never learn what is wrong with its calls.
    return runInContext(call, { ...options, onRefused: method.endsWith('/list') ? 'run' : options.onRefused }, run);
  });
}
