import { randomBytes } from 'node:crypto';
import type { Journal } from '../observability/journal/journal.ts';
import { digestsEqual, mintToken, type PresentedToken, parseToken } from './token.ts';

/** A viewer may read; an admin may do everything. */
export type ControlRole = 'viewer' | 'admin';

/** A sign-in that was granted: its role, and the credential that it comes from. */
export interface ConsoleGrant {
  readonly role: ControlRole;
  /** The name of the credential that made the sign-in. */
  readonly by: string;
  /** The console that made the sign-in. It ends with that console. */
  readonly parentId?: string | undefined;
  /** The time at which the credential expires. No sign-in outlives the credential that made it. */
  readonly until?: number | undefined;
}

/** A signed-in console, without its token. */
export interface ConsoleRecord {
  readonly id: string;
  readonly role: ControlRole;
  readonly by: string;
  readonly createdAt: number;
  readonly expiresAt: number;
  readonly lastUsedAt: number;
  /** The network address of its last request, or of the proxy in front of Ambit. */
  readonly address: string | undefined;
}

/** The token is returned only here. */
export type MintedConsole = ConsoleRecord & { readonly token: string };

/**
 * The signed-in consoles of one gateway, and the one-time codes that open them. Both are in the memory of the process
 * alone, as digests: a restart of the gateway signs everybody out.
 */
export interface Consoles {
  /**
   * A name of this machine that no other program has had, for browsers: another program may have had the port before,
   * and have left a page in the browser under the address that the gateway has now.
   */
  readonly hostName: string;
  /** Creates a code for one console, which gets the returned id. */
  createCode(grant: ConsoleGrant): { readonly id: string; readonly code: string; readonly expiresAt: number };
  /** Exchanges a code for a token. Returns undefined for a code that is unknown, used or expired. */
  redeemCode(code: string, address: string | undefined): MintedConsole | undefined;
  open(grant: ConsoleGrant, address: string | undefined): MintedConsole;
  /** Verifies a token and notes its use. Returns undefined for any token that is not valid now. */
  verify(presented: PresentedToken, address: string | undefined): ConsoleRecord | undefined;
  list(): ConsoleRecord[];
  /**
   * Ends a console, by its id or a unique prefix of it, and every console and code that it made. Returns undefined if
   * there is no such console.
   */
  revoke(reference: string, by: string): ConsoleRecord | undefined;
  /** Calls the listener when the console ends. Returns a function that removes the listener. */
  onEnd(id: string, listener: () => void): () => void;
}

interface ConsoleClocks {
  readonly now: () => number;
  /** A monotonic clock: setting the system clock back must not prolong a sign-in. */
  readonly elapsed: () => number;
}

interface Deadline {
  readonly at: number;
  readonly elapsedAt: number;
}

interface Code {
  readonly digest: string;
  readonly grant: ConsoleGrant;
  readonly deadline: Deadline;
}

interface OpenConsole {
  record: ConsoleRecord;
  readonly digest: string;
  readonly parentId: string | undefined;
  readonly deadline: Deadline;
  readonly listeners: Set<() => void>;
}

const codeMs = 60_000;
const tokenMs = 8 * 3_600_000;
const minPrefix = 4;
const maxCodes = 64;
const maxConsoles = 256;
const systemClocks: ConsoleClocks = { now: Date.now, elapsed: () => performance.now() };

export function createConsoles(journal: Pick<Journal, 'record'>, clocks: ConsoleClocks = systemClocks): Consoles {
  const codes = new Map<string, Code>();
  const consoles = new Map<string, OpenConsole>();

  function setDeadline(lifeMs: number, until = Infinity): Deadline {
    const left = Math.min(lifeMs, until - clocks.now());
    return { at: clocks.now() + left, elapsedAt: clocks.elapsed() + left };
  }

  function isOver({ at, elapsedAt }: Deadline): boolean {
    return clocks.now() >= at || clocks.elapsed() >= elapsedAt;
  }

  /** Forgets what has expired. It was not valid any more already. */
  function dropExpired(): void {
    for (const [id, { deadline }] of codes) if (isOver(deadline)) codes.delete(id);
    for (const { record, deadline } of consoles.values()) if (isOver(deadline)) end(record.id);
  }

  /** Ends a console and what it made. Returns the ids of all consoles that ended. */
  function end(id: string): string[] {
    const ended = consoles.get(id);
    if (ended === undefined) return [];
    consoles.delete(id);
    for (const [each, { grant }] of codes) if (grant.parentId === id) codes.delete(each);
    for (const listener of ended.listeners) listener();
    const children = [...consoles.values()].filter(({ parentId }) => parentId === id);
    return [id, ...children.flatMap(({ record }) => end(record.id))];
  }

  function recordEnd(ended: ConsoleRecord, by: string): void {
    const { id: consoleId, role } = ended;
    journal.record({ kind: 'gateway', event: 'console-revoked', consoleId, role, by });
  }

  function revoke(id: string, by: string): ConsoleRecord | undefined {
    dropExpired();
    const found = new Map([...consoles.values()].map(({ record }) => [record.id, record]));
    const ended = end(id).map((each) => found.get(each) as ConsoleRecord);
    for (const each of ended) recordEnd(each, by);
    return ended[0];
  }

  /**
   * Ends the console that was unused for the longest time. It is one of the caller with the most consoles, so that
   * nobody can sign out others by signing in often.
   */
  function makeRoom(): void {
    const counts = new Map<string, number>();
    for (const { record } of consoles.values()) counts.set(record.by, (counts.get(record.by) ?? 0) + 1);
    const most = Math.max(...counts.values());
    const [oldest] = [...consoles.values()]
      .map(({ record }) => record)
      .filter(({ by }) => counts.get(by) === most)
      .sort((a, b) => a.lastUsedAt - b.lastUsedAt);
    if (oldest !== undefined) revoke(oldest.id, 'gateway');
  }

  function open(id: string, { role, by, parentId, until }: ConsoleGrant, address: string | undefined): MintedConsole {
    dropExpired();
    if (consoles.size >= maxConsoles) makeRoom();
    const { token, digest } = mintToken('ambc', id);
    const deadline = setDeadline(tokenMs, until);
    const createdAt = clocks.now();
    const record = { id, role, by, createdAt, expiresAt: deadline.at, lastUsedAt: createdAt, address };
    consoles.set(id, { record, digest, parentId, deadline, listeners: new Set() });
    journal.record({ kind: 'gateway', event: 'console-opened', consoleId: id, role, by, address });
    return { ...record, token };
  }

  function findId(reference: string): string {
    const fitting = [...consoles.keys()].filter((id) => id.startsWith(reference));
    return reference.length >= minPrefix && fitting.length === 1 ? (fitting[0] as string) : reference;
  }

  return {
    hostName: `${randomBytes(16).toString('hex')}.localhost`,
    open: (grant, address) => open(createId(), grant, address),
    revoke: (reference, by) => revoke(findId(reference), by),
    createCode(grant) {
      dropExpired();
      if (codes.size >= maxCodes) codes.delete(codes.keys().next().value as string);
      const id = createId();
      const { token: code, digest } = mintToken('ambo', id);
      const deadline = setDeadline(codeMs, grant.until);
      codes.set(id, { digest, grant, deadline });
      const { role, by, parentId: consoleId } = grant;
      journal.record({ kind: 'gateway', event: 'console-link-made', role, by, consoleId });
      return { id, code, expiresAt: deadline.at };
    },
    redeemCode(text, address) {
      dropExpired();
      const { kind, id = '', digest } = parseToken(text);
      const found = kind === 'ambo' ? codes.get(id) : undefined;
      if (found === undefined || !digestsEqual(found.digest, digest)) return undefined;
      codes.delete(id);
      return open(id, found.grant, address);
    },
    verify({ kind, id = '', digest }, address) {
      const found = kind === 'ambc' ? consoles.get(id) : undefined;
      if (found === undefined || !digestsEqual(found.digest, digest)) return undefined;
      if (isOver(found.deadline)) {
        end(id);
        return undefined;
      }
      found.record = { ...found.record, lastUsedAt: clocks.now(), address };
      return found.record;
    },
    list() {
      dropExpired();
      return [...consoles.values()].map(({ record }) => record);
    },
    onEnd(id, listener) {
      const found = consoles.get(id);
      found?.listeners.add(listener);
      return () => void found?.listeners.delete(listener);
    },
  };
}

/** Creates an id that finds an entry. It is no secret. */
function createId(): string {
  return randomBytes(16).toString('hex');
}
