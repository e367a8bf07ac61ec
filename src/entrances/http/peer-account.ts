import { readFile } from 'node:fs/promises';
import type { Socket } from 'node:net';
import { endianness } from 'node:os';

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
