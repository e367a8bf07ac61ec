import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto';

/**
 * The tasks that each session has made, or has named by an id sealed for it. An upstream that knows Ambit as one
 * customer tells every session about the tasks of all: only those that are known here are passed on.
 */
export interface KnownTasks {
  remember(sessionId: string, server: string, taskId: string): void;
  knows(sessionId: string, server: string, taskId: string): boolean;
  /** All tasks of a session that has ended. */
  forget(sessionId: string): void;
}

/** When there are more, the one that was named least recently is no longer listed; its sealed id works as before. */
const maxTasksPerSession = 1000;

/**
 * Opaque values that an upstream hands out and gets back through the caller (`requestState`, task ids) leave us
 * sealed: the value itself, and a MAC over it and over whom it was given to. Nothing needs to be remembered, and a
 * value taken to another session, server, method or tool does not open.
 */
export interface Seals {
  seal(value: string, bindings: readonly string[], expiresAt?: number): string;
  /** The value, or undefined when the seal does not fit. */
  open(sealed: string, bindings: readonly string[], now: number): string | undefined;
}

const macLength = 22;

export function createSeals(key: Buffer = randomBytes(32)): Seals {
  function mac(value: string, bindings: readonly string[], expiry: string): string {
    // JSON keeps the parts apart: ["ab","c"] and ["a","bc"] are different texts.
    const text = JSON.stringify([expiry, ...bindings, value]);
    return createHmac('sha256', key).update(text).digest('base64url').slice(0, macLength);
  }
  return {
    seal(value, bindings, expiresAt) {
      const expiry = expiresAt === undefined ? '0' : Math.ceil(expiresAt / 1000).toString(36);
      return `${mac(value, bindings, expiry)}.${expiry}.${value}`;
    },
    open(sealed, bindings, now) {
      const dot = sealed.indexOf('.', macLength + 1);
      if (sealed[macLength] !== '.' || dot === -1) return undefined;
      const expiry = sealed.slice(macLength + 1, dot);
      const value = sealed.slice(dot + 1);
      const given = Buffer.from(sealed.slice(0, macLength), 'utf8');
      const right = Buffer.from(mac(value, bindings, expiry), 'utf8');
      if (given.length !== right.length || !timingSafeEqual(given, right)) return undefined;
      if (expiry !== '0' && Number.parseInt(expiry, 36) * 1000 < now) return undefined;
      return value;
    },
  };
}

export function createKnownTasks(): KnownTasks {
  const bySession = new Map<string, Set<string>>();
  return {
    remember(sessionId, server, taskId) {
      if (sessionId === '') return;
      const known = bySession.get(sessionId) ?? new Set();
      bySession.set(sessionId, known);
      const digest = taskDigest(server, taskId);
      known.delete(digest);
      known.add(digest);
      const [oldest] = known;
      if (known.size > maxTasksPerSession && oldest !== undefined) known.delete(oldest);
    },
    knows: (sessionId, server, taskId) => bySession.get(sessionId)?.has(taskDigest(server, taskId)) ?? false,
    forget: (sessionId) => void bySession.delete(sessionId),
  };
}

/** Ids can be long: a digest is not. */
function taskDigest(server: string, taskId: string): string {
  return createHash('sha256')
    .update(JSON.stringify([server, taskId]))
    .digest('base64url');
}
