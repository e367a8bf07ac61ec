import { type Call, type CallSource, callOf, contextIn, type Headers, isObject, type KnownCall } from './call.ts';
import { type Claims, checkAudience, checkBinding, checkTimes, readClaims } from './claims.ts';
import { absent, frozen, Refusal, type SessionContext, type VerifiedContext } from './context.ts';
import { type Environment, inheritedContext, startEnvironment, store } from './current-session.ts';
import type { KeySource } from './keys.ts';
import { type ReplayMemory, refuseReplay } from './replay-memory.ts';
import { verifiedClaims } from './verify-signature.ts';

export interface ContextOptions {
  /**
   * Who this server is: over HTTP its address exactly as Ambit's configuration has it, and required; over stdio
   * `ambit:server:<name>`, and any name of that form where neither this nor `AMBIT_AUDIENCE` is given.
   */
  readonly audience?: string | readonly string[] | undefined;
  /** Who may have signed; by default anyone whose key is among the keys. */
  readonly issuer?: string | undefined;
  /** The keys to verify with; by default `jwksUri`, else `AMBIT_JWKS`. */
  readonly keys?: KeySource | undefined;
  /** The address of the keys: the gateway's `/.well-known/jwks.json`. */
  readonly jwksUri?: string | undefined;
  /** How far clocks may differ. Default 5 seconds. */
  readonly clockSkewSeconds?: number | undefined;
  /** Where used tokens are remembered; by default in this process. */
  readonly replays?: ReplayMemory | undefined;
  /** Say `http` when you serve a network through a transport that shows no headers: the environment is not the caller's. */
  readonly transport?: 'stdio' | 'http' | undefined;
  /** Instead of the environment this process was started with. */
  readonly env?: Environment | undefined;
  /** Milliseconds since 1970; for tests. */
  readonly now?: (() => number) | undefined;
}

/** What else is known about the call, where the handler's last argument does not tell. */
export interface ReadOptions extends ContextOptions, Pick<KnownCall, 'method' | 'name' | 'arguments'> {}

/**
 * The context of a call: `_meta["ambit/context"]`, else the header `Txn-Token`, else, over stdio, the environment.
 * It never throws. What was sent and does not hold gives `absent` with the reason, never the environment instead.
 */
export async function readContext(source?: CallSource, options?: ReadOptions): Promise<SessionContext> {
  const around = store.getStore();
  if (source === undefined) return around?.context ?? inheritedContext(options?.env);
  let call = callOf(source, options);
  if (around !== undefined && around.call.carrier !== undefined && around.call.carrier === call.carrier) {
    if (options === undefined) return around.context;
    call = { ...call, ...callWords(around.call), ...callWords(options) };
  }
  return readCall(call, options);
}

function callWords({ method, name, arguments: given }: KnownCall): Partial<Call> {
  return {
    ...(method === undefined ? {} : { method }),
    ...(name === undefined ? {} : { name }),
    ...(given === undefined ? {} : { arguments: given }),
  };
}

export async function readCall(call: Call, options: ContextOptions = {}): Promise<SessionContext> {
  try {
    const plain = contextIn(call.meta);
    const token = plain === undefined ? tokenInHeaders(call.headers) : tokenBeside(plain);
    if (token !== undefined) return await verify(token, plain, call, options);
  } catch (error) {
    if (error instanceof Refusal) return absent(error.code, error.message);
    return absent('CONTEXT_MALFORMED', 'The context could not be read.');
  }
  // The environment of an HTTP server says who started it, not who calls it.
  if (call.transport === 'http')
    return absent('NO_CONTEXT', 'The call carries no context: it did not come through Ambit.');
  return inheritedContext(options.env);
}

async function verify(token: string, plain: unknown, call: Call, options: ContextOptions): Promise<VerifiedContext> {
  const env = options.env ?? startEnvironment;
  const keys = options.keys ?? options.jwksUri ?? (env.AMBIT_JWKS || undefined);
  if (keys === undefined) {
    throw new Refusal(
      'KEYS_MISSING',
      'There are no keys to verify the context with: set AMBIT_JWKS, or give "jwksUri" or "keys".',
    );
  }
  const now = options.now?.() ?? Date.now();
  const skew = options.clockSkewSeconds ?? 5;
  const claims = readClaims(await verifiedClaims(token, keys));
  if (options.issuer !== undefined && claims.issuer !== options.issuer) {
    throw new Refusal('ISSUER_MISMATCH', 'The token was not issued by the gateway this server expects.');
  }
  const audience = options.audience ?? (env.AMBIT_AUDIENCE || undefined);
  checkAudience(claims, typeof audience === 'string' ? [audience] : audience, call);
  checkTimes(claims, now, skew);
  checkBinding(claims, call);
  await refuseReplay(claims, call, { now, until: (claims.expiresAt + skew) * 1000, memory: options.replays });
  return contextOf(claims, plain, call);
}

function contextOf(claims: Claims, plain: unknown, call: Call): VerifiedContext {
  const { sessionId, correlationId, userId, agentId, workspaceId, trustLevel, permissions } = claims;
  const beside = isObject(plain) ? plain : {};
  const path = beside['workspacePath'];
  const signed = { sessionId, correlationId, userId, agentId, workspaceId, trustLevel };
  const overruled = Object.entries(signed).filter(
    ([name, value]) => name in beside && (beside[name] || undefined) !== value,
  );
  return frozen<VerifiedContext>({
    status: 'verified',
    ...signed,
    // The path is not signed. Over stdio it came through the same pipe as the process itself; over HTTP it is hearsay.
    workspacePath: call.transport === 'stdio' && typeof path === 'string' && path !== '' ? path : undefined,
    permissions: [...permissions],
    issuedAt: claims.issuedAt * 1000,
    expiresAt: claims.expiresAt * 1000,
    reason:
      overruled.length === 0
        ? undefined
        : `What is signed overruled what stood beside it: ${overruled.map(([name]) => name).join(', ')}.`,
    code: undefined,
  });
}

function tokenBeside(plain: unknown): string {
  if (!isObject(plain)) throw new Refusal('CONTEXT_MALFORMED', '_meta["ambit/context"] is not an object.');
  const token = plain['token'];
  if (token === undefined)
    throw new Refusal('TOKEN_MISSING', '_meta["ambit/context"] holds no token, so anyone may have written it.');
  if (typeof token !== 'string') throw new Refusal('TOKEN_MALFORMED', 'The token is not a string.');
  return token;
}

function tokenInHeaders(headers: Headers | undefined): string | undefined {
  if (headers === undefined) return undefined;
  if (typeof headers['get'] === 'function')
    return (headers as { get(name: string): string | null }).get('txn-token') ?? undefined;
  const found = Object.entries(headers)
    .filter(([name]) => name.toLowerCase() === 'txn-token')
    .flatMap(([, value]) => value ?? []) as string[];
  if (found.length > 1) throw new Refusal('TOKEN_MALFORMED', 'The header Txn-Token came more than once.');
  return found[0];
}
