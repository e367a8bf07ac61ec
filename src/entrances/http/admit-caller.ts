import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import { AmbitError } from '../../errors.ts';
import type { Gateway, Refusal } from '../../gateway/gateway.ts';
import { asAmbitError } from '../../gateway/refusal.ts';
import type { ConnectionOrigin, PresentedCredential, Principal } from '../../identity/principal.ts';
import { digestsEqual, mintToken, parseToken, tokenDigest } from '../../identity/token.ts';
import { loadOrCreateSecret } from '../../lib/fs/private-files.ts';
import type { Connections } from './connections.ts';
import { isLoopback } from './guards.ts';
import { createIsOwnPeer } from './peer-account.ts';

interface AdminToken {
  /** The file with the token, which is shown nowhere else. */
  readonly file: string;
  /** Tells whether an Authorization header contains the token, in constant time. */
  matches(authorization: string | undefined): boolean;
}

/** Names the administrator who sent a request, for the journal. Undefined when it was no administrator. */
export type AdminCheck = (request: IncomingMessage) => Promise<string | undefined>;

/** The last credential of each connection. It is parsed and hashed once, and verified for each request. */
const lastCredentials = new WeakMap<Socket, { authorization: string | undefined; credential: PresentedCredential }>();

/** Connections from other accounts of this machine. They count as connections from another machine. */
const foreignSockets = new WeakSet<Socket>();

/** A caller whose body is read. */
export interface AdmittedCaller {
  /** Names the owner of the connections and bytes, which are counted for each key. */
  readonly key: string;
  readonly isStranger: boolean;
  readonly names: Pick<Refusal, 'sessionId' | 'userId' | 'keyId'>;
}

/** Identifies the sender of a request by its head alone, before its body is read. Returns a promise only if it must ask. */
export type AdmitCaller = (
  request: IncomingMessage,
  response: ServerResponse,
) => AdmittedCaller | AmbitError | Promise<AdmittedCaller | AmbitError>;

/** The errors that are final here. For other errors the pipeline gives the client a better answer. */
const refusedCodes = new Set(['UNAUTHENTICATED', 'IDENTITY_UNAVAILABLE']);

export function createAdmitCaller(gateway: Gateway, connections: Connections): AdmitCaller {
  /** The verification in progress on each connection. Each one reads the store, so they run one by one. */
  const proving = new WeakMap<Socket, Promise<unknown>>();

  function identify(request: IncomingMessage): Principal | Promise<Principal> {
    const { socket } = request;
    const before = proving.get(socket);
    const credential = getCredential(request);
    const found = before === undefined ? gateway.identify(credential) : before.then(() => gateway.identify(credential));
    if (!(found instanceof Promise)) return found;
    const settled = found.then(ignore, ignore);
    proving.set(socket, settled);
    void settled.then(() => {
      if (proving.get(socket) === settled) proving.delete(socket);
    });
    return found;
  }

  const isOwnPeer = createIsOwnPeer();

  /** Refuses an unproven caller, or lets the pipeline explain to a caller with a valid token why it is refused. */
  function handleUnproven(request: IncomingMessage, error: unknown): AdmittedCaller | AmbitError {
    connections.demote(request.socket);
    const refusal = asAmbitError(error);
    if (refusedCodes.has(refusal.code)) return refusal;
    return { key: 'unproven', isStranger: true, names: {} };
  }

  /**
   * Refuses anonymous requests from other accounts of this machine, because all anonymous callers are one user.
   * Requests with a credential are checked too: it may be revoked while the body arrives, or count as anonymous.
   */
  async function checkAccount(request: IncomingMessage): Promise<void> {
    const { socket, headers } = request;
    if (await isOwnPeer(socket)) return;
    markForeign(socket);
    if (headers.authorization === undefined) throw foreignAccountError();
  }

  function findPrincipal(request: IncomingMessage): Principal | Promise<Principal> {
    const needsCheck = gateway.config.auth.anonymous === 'loopback' && isLoopback(request.socket.remoteAddress);
    return needsCheck ? checkAccount(request).then(() => identify(request)) : identify(request);
  }

  function admitPrincipal(
    request: IncomingMessage,
    response: ServerResponse,
    principal: Principal,
  ): AdmittedCaller | AmbitError {
    const { socket } = request;
    const key = callerKey(principal);
    if (!connections.assignCredential(socket, key)) {
      return new AmbitError('OVERLOADED', {
        what: 'This credential has reached its limit of connections, and all of them are in use.',
        hint: 'Close some connections, or wait until calls have finished.',
        rule: 'listen.maxConnections',
      });
    }
    response.once('close', () => connections.finishRequest(socket));
    return { key, isStranger: false, names: journalNames(principal) };
  }

  return function admitCaller(request, response) {
    let found: Principal | Promise<Principal>;
    try {
      found = findPrincipal(request);
    } catch (error) {
      return handleUnproven(request, error);
    }
    if (!(found instanceof Promise)) return admitPrincipal(request, response, found);
    return found.then(
      (principal) => admitPrincipal(request, response, principal),
      (error: unknown) => handleUnproven(request, error),
    );
  };
}

function foreignAccountError(): AmbitError {
  return new AmbitError('UNAUTHENTICATED', {
    what: 'The request has no credential, and it comes from another user account than the one that runs the gateway.',
    rule: 'auth.anonymous',
  });
}

function ignore(): void {}

function callerKey(principal: Principal): string {
  if (principal.kind === 'session') return `session ${principal.sessionId}`;
  if (principal.kind === 'user' && principal.keyId !== undefined) return `key ${principal.keyId}`;
  return `${principal.kind} ${principal.userId}`;
}

function journalNames(principal: Principal): AdmittedCaller['names'] {
  const { userId } = principal;
  if (principal.kind === 'session') return { sessionId: principal.sessionId, userId };
  return principal.kind === 'user' ? { userId, keyId: principal.keyId } : { userId };
}

/** Marks a connection as one of another account. Call it before a credential of the connection is used. */
export function markForeign(socket: Socket): void {
  foreignSockets.add(socket);
  lastCredentials.delete(socket);
}

/** Returns the credential of a request. It is not verified yet. */
export function getCredential(request: IncomingMessage): PresentedCredential {
  const { authorization } = request.headers;
  const seen = lastCredentials.get(request.socket);
  if (seen !== undefined && seen.authorization === authorization) return seen.credential;
  const { socket } = request;
  const address = socket.remoteAddress;
  const credential = parseCredential(authorization, {
    loopback: isLoopback(address) && !foreignSockets.has(socket),
    address,
  });
  lastCredentials.set(socket, { authorization, credential });
  return credential;
}

function parseCredential(authorization: string | undefined, origin: ConnectionOrigin): PresentedCredential {
  if (authorization === undefined) return { kind: 'none', ...origin };
  // Access tokens that list the groups of a user are long. Node limits the size of all headers together.
  const token = /^Bearer +([\x21-\x7e]{1,12288})$/i.exec(authorization)?.[1] ?? '';
  return { kind: 'bearer', presented: parseToken(token), ...origin };
}

/** Recognises the admin token, and access tokens with the admin role. */
export function createAdminCheck({ jwt }: Gateway, token: AdminToken): AdminCheck {
  return async function adminOf(request) {
    if (token.matches(request.headers.authorization)) return 'admin-token';
    const credential = getCredential(request);
    return credential.kind === 'bearer' ? jwt?.adminOf(credential.presented) : undefined;
  };
}

/** Opens the credential of the control API over HTTP, in a file that only the user of the gateway can read. */
export async function openAdminToken(dataDir: string): Promise<AdminToken> {
  const file = join(dataDir, 'admin-token');
  const digest = tokenDigest(await loadOrCreateSecret(file, () => mintToken('amba', 'admin').token));
  return {
    file,
    matches(authorization) {
      const presented = /^Bearer +([\x21-\x7e]{1,4096})$/i.exec(authorization ?? '')?.[1];
      return presented !== undefined && digestsEqual(tokenDigest(presented), digest);
    },
  };
}
