import { readFile } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { endianness } from 'node:os';
import { join } from 'node:path';
import { AmbitError } from '../../errors.ts';
import type { Gateway, Refusal } from '../../gateway/gateway.ts';
import { asAmbitError } from '../../gateway/refusal.ts';
import type { ConnectionOrigin, PresentedCredential, Principal } from '../../identity/principal.ts';
import { digestsEqual, mintToken, parseToken, tokenDigest } from '../../identity/token.ts';
import { loadOrCreateSecret } from '../../lib/fs/private-files.ts';
import type { ControlCaller } from '../control/route.ts';
import type { Connections } from './connections.ts';
import { isLoopback } from './guards.ts';

interface AdminToken {
  /** The file with the token, which is shown nowhere else. */
  readonly file: string;
  /** Tells whether an Authorization header contains the token, in constant time. */
  matches(authorization: string | undefined): boolean;
}

/** Finds who sent a request to the control API. Undefined when its credential gives no access to it. */
export type CallerCheck = (request: IncomingMessage) => Promise<ControlCaller | undefined>;

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
    const releaseKey = gateway.holdKey(principal, getCredential(request));
    const finish = () => {
      connections.finishRequest(socket);
      releaseKey?.();
    };
    // The client may have left while its credential was verified.
    if (response.destroyed) finish();
    else response.once('close', finish);
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
  return { kind: 'bearer', presented: parseToken(readBearerToken(authorization) ?? ''), ...origin };
}

/** Returns the token of a header. Access tokens are long; Node limits the size of all headers together. */
function readBearerToken(authorization = ''): string | undefined {
  return /^Bearer +([\x21-\x7e]{1,12288})$/i.exec(authorization)?.[1];
}

/** Recognises the admin token, tokens of consoles, and access tokens with a role for the control API. */
export function createCallerCheck({ jwt, running }: Gateway, token: AdminToken): CallerCheck {
  return async function findCaller({ headers, socket }) {
    const from = socket.remoteAddress;
    if (token.matches(headers.authorization)) return { role: 'admin', by: 'admin-token', from };
    const text = readBearerToken(headers.authorization);
    if (text === undefined) return undefined;
    const presented = parseToken(text);
    const opened = running.consoles.verify(presented, from);
    if (opened !== undefined) {
      return { role: opened.role, by: opened.by, consoleId: opened.id, until: opened.expiresAt, from };
    }
    const access = await jwt?.findControlAccess(presented);
    return access && { role: access.role, by: access.userId, until: access.until, from };
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

/** The two ends of a connection, seen from our side. */
type SocketEnds = Readonly<
  Record<'remoteAddress' | 'localAddress', string | undefined> & Record<'remotePort' | 'localPort', number | undefined>
>;

/** Tells whether a connection of this machine was opened by the account of the gateway, or by root. */
type IsOwnPeer = (socket: Socket) => boolean | Promise<boolean>;

/** `unknown`: the table does not describe our network. `gone`: it does, and the other end is not in it. */
type PeerAccount = 'own' | 'other' | 'gone' | 'unknown';

/**
 * Checks each connection once. Where the system does not tell the owner, as outside of Linux, every connection counts
 * as own. A client that has left gets no answer anyway.
 */
export function createIsOwnPeer(readTables: () => Promise<string> = readSocketTables): IsOwnPeer {
  const known = new WeakMap<Socket, boolean | Promise<boolean>>();
  const trusted = trustedAccounts();
  const freshTables = shareReads(readTables);

  async function readAccount(socket: Socket): Promise<boolean> {
    const { remoteAddress, remotePort, localAddress, localPort } = socket;
    const ends = { remoteAddress, remotePort, localAddress, localPort };
    let found = findPeerAccount(await freshTables(), ends, trusted);
    // The table is read in pieces while it changes, so a line can be missed.
    if (found === 'gone') found = findPeerAccount(await freshTables(), ends, trusted);
    const isOwn = found === 'own' || found === 'unknown';
    known.set(socket, isOwn);
    return isOwn;
  }

  return function isOwnPeer(socket) {
    if (trusted === undefined) return true;
    const before = known.get(socket);
    if (before !== undefined) return before;
    const reading = readAccount(socket);
    known.set(socket, reading);
    return reading;
  };
}

/** Returns undefined if accounts have no number or the system has no such table. */
function trustedAccounts(): ReadonlySet<string> | undefined {
  if (process.platform !== 'linux' || process.getuid === undefined) return undefined;
  const own = process.getuid();
  const sudo = process.env['SUDO_UID'];
  return new Set(['0', String(own), ...(own === 0 && sudo !== undefined ? [sudo] : [])]);
}

/** Shares one read among all that wait. A read that began earlier does not count. */
function shareReads(read: () => Promise<string>): () => Promise<string> {
  let running: Promise<unknown> = Promise.resolve();
  let next: Promise<string> | undefined;
  return () => {
    next ??= running.then(() => {
      next = undefined;
      const reading = read();
      running = reading;
      return reading;
    });
    return next;
  };
}

/** Returns an empty text if the tables cannot be read. */
async function readSocketTables(): Promise<string> {
  const texts = await Promise.all(
    ['/proc/net/tcp', '/proc/net/tcp6'].map((file) => readFile(file, 'latin1').catch(() => '')),
  );
  return texts.join('\n');
}

/** Finds the account of the other end in the kernel's table of sockets. */
export function findPeerAccount(
  tables: string,
  ends: SocketEnds,
  trusted: ReadonlySet<string> = new Set(),
): PeerAccount {
  const { remoteAddress, remotePort, localAddress, localPort } = ends;
  if (remoteAddress === undefined || localAddress === undefined) return 'gone';
  if (remotePort === undefined || localPort === undefined) return 'gone';
  const [remotes, locals] = [formatAddress(remoteAddress), formatAddress(localAddress)];
  const [theirs, ours] = [formatPort(remotePort), formatPort(localPort)];
  const isOurTable = anyAddress.some((address) => tables.includes(`:${ours} ${address}:0000 ${listenState} `));
  if (!isOurTable) return 'unknown';
  for (const [index, remote] of remotes.entries()) {
    const start = tables.indexOf(` ${remote}:${theirs} ${locals[index]}:${ours} `);
    if (start === -1) continue;
    const [, , , , , , uid = '', , inode = ''] = tables
      .slice(start, start + lineLength)
      .trim()
      .split(/\s+/);
    // A socket that its owner has closed is listed for root, without an inode.
    if (inode === '0' || inode === '') return 'gone';
    return trusted.has(uid) ? 'own' : 'other';
  }
  return 'gone';
}

const listenState = '0A';
const anyAddress = ['0'.repeat(8), '0'.repeat(32)];
const lineLength = 300;
const formatPort = (port: number): string => port.toString(16).toUpperCase().padStart(4, '0');

/** Formats an address as the tables do; an IPv4 address also as an IPv6 socket has it. */
function formatAddress(address: string): string[] {
  if (address === '::1') return [hexWords([...new Array<number>(15).fill(0), 1])];
  const four = address
    .replace(/^::ffff:/i, '')
    .split('.')
    .map(Number);
  return [hexWords(four), hexWords([...new Array<number>(10).fill(0), 0xff, 0xff, ...four])];
}

/** Formats bytes as words of four in the byte order of this machine. */
function hexWords(bytes: readonly number[]): string {
  const hex = bytes.map((byte) => byte.toString(16).toUpperCase().padStart(2, '0'));
  const found: string[] = [];
  for (let i = 0; i < hex.length; i += 4) {
    const word = hex.slice(i, i + 4);
    found.push((endianness() === 'LE' ? word.reverse() : word).join(''));
  }
  return found.join('');
}
