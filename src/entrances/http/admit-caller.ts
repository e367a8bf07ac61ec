import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { AmbitError } from '../../errors.ts';
import type { Gateway, Refusal } from '../../gateway/gateway.ts';
import { asAmbitError } from '../../gateway/refusal.ts';
import type { AdminToken } from '../../identity/admin-token.ts';
import type { Credential, Origin, Principal } from '../../identity/principal.ts';
import { presentedToken } from '../../identity/token.ts';
import type { Connections } from './connections.ts';
import { isLoopback } from './guards.ts';
import { createIsOwnPeer } from './peer-account.ts';

/** By whom a request is that may do everything, for the journal; undefined when it may not. */
export type AdminCheck = (request: IncomingMessage) => Promise<string | undefined>;

interface CachedCredential {
  readonly authorization: string | undefined;
  readonly credential: Credential;
}

/** A client says the same on every request of a connection: what it said is read and hashed once, and proven each time. */
const lastCredentials = new WeakMap<Socket, CachedCredential>();

/** Connections of this machine that belong to another account: they count as if they came from another machine. */
const foreignSockets = new WeakSet<Socket>();

/** A caller whose body is read. */
export interface AdmittedCaller {
  /** Names the owner of the connections and bytes, which are counted for each key. */
  readonly key: string;
  readonly isStranger: boolean;
  /** For the journal. */
  readonly names: Pick<Refusal, 'sessionId' | 'userId' | 'keyId'>;
}

/** Finds out who sent a request from its head alone, before anything else of it is read. */
export type AdmitCaller = (request: IncomingMessage, response: ServerResponse) => Promise<AdmittedCaller | AmbitError>;

/** Nothing more is to be found out about these; of others the pipeline says more, in words of the protocol. */
const refusedCodes = new Set(['UNAUTHENTICATED', 'IDENTITY_UNAVAILABLE']);

export function createAdmitCaller(gateway: Gateway, connections: Connections): AdmitCaller {
  /** Requests that come on one connection at once are proven one after the other: each costs a look into the store. */
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

  /** Who has no place here may still be told why, if the token is good as such. */
  function handleUnproven(request: IncomingMessage, error: unknown): AdmittedCaller | AmbitError {
    connections.demote(request.socket);
    const refusal = asAmbitError(error);
    if (refusedCodes.has(refusal.code)) return refusal;
    return { key: 'unproven', isStranger: true, names: {} };
  }

  /**
   * All who are anonymous are one user, so they must be one account. Whoever comes with a credential is looked at too: it
   * may be revoked while the body comes in, and what does not verify may count as anonymous.
   */
  async function checkAccount(request: IncomingMessage): Promise<void> {
    const { socket, headers } = request;
    if (await isOwnPeer(socket)) return;
    markForeign(socket);
    if (headers.authorization === undefined) throw foreignAccountError();
  }

  return async function admitCaller(request, response) {
    let principal: Principal;
    try {
      if (gateway.config.auth.anonymous === 'loopback' && isLoopback(request.socket.remoteAddress)) {
        await checkAccount(request);
      }
      const found = identify(request);
      principal = found instanceof Promise ? await found : found;
    } catch (error) {
      return handleUnproven(request, error);
    }
    const { socket } = request;
    const key = callerKey(principal);
    if (!connections.assignCredential(socket, key)) {
      return new AmbitError('OVERLOADED', {
        what: 'This credential has as many connections as it may, and all of them are in use.',
        hint: 'Close some, or wait for calls that are under way.',
        rule: 'listen.maxConnections',
      });
    }
    response.once('close', () => connections.finishRequest(socket));
    return { key, isStranger: false, names: journalNames(principal) };
  };
}

function foreignAccountError(): AmbitError {
  return new AmbitError('UNAUTHENTICATED', {
    what: 'The request carries no credential and comes from another account of this machine than the gateway runs as.',
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

/** To be said before a credential of this connection is used. */
export function markForeign(socket: Socket): void {
  foreignSockets.add(socket);
  lastCredentials.delete(socket);
}

/** What the request carries to prove who sends it; proven is nothing yet. */
export function getCredential(request: IncomingMessage): Credential {
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

function parseCredential(authorization: string | undefined, origin: Origin): Credential {
  if (authorization === undefined) return { kind: 'none', ...origin };
  // Access tokens that list the groups of their user are long; Node bounds all headers together.
  const token = /^Bearer +([\x21-\x7e]{1,12288})$/i.exec(authorization)?.[1] ?? '';
  return { kind: 'bearer', presented: presentedToken(token), ...origin };
}

/** Who carries the admin token, or an access token with the role for it. */
export function createAdminCheck({ jwt }: Gateway, token: AdminToken): AdminCheck {
  return async function adminOf(request) {
    if (token.isCarriedBy(request.headers.authorization)) return 'admin-token';
    const credential = getCredential(request);
    return credential.kind === 'bearer' ? jwt?.adminOf(credential.presented) : undefined;
  };
}
