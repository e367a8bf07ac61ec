import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto';

/**
 * The tasks that each session has created or named by a sealed id. An upstream sees Ambit as one customer and reports the
 * tasks of all sessions to each: only the known ones are passed on.
 */
export interface KnownTasks {
  remember(sessionId: string, server: string, taskId: string): void;
  knows(sessionId: string, server: string, taskId: string): boolean;
  /** Forgets the tasks of a session that has ended. */
  forget(sessionId: string): void;
}

/** Beyond this number the task that was used least recently is no longer listed. Its sealed id still works. */
const maxTasksPerSession = 1000;

/**
 * Seals the opaque values of an upstream that come back through the caller (`requestState`, task ids): the value and a MAC
 * over it and its bindings. Nothing is stored, and a value does not open for another session, server, method or tool.
 */
export interface Seals {
  seal(value: string, bindings: readonly string[], expiresAt?: number): string;
  /** Opens a value; undefined when the seal does not fit. */
  open(sealed: string, bindings: readonly string[], now: number): string | undefined;
}

const macLength = 22;

export function createSeals(key: Buffer = randomBytes(32)): Seals {
  function mac(value: string, bindings: readonly string[], expiry: string): string {
    // JSON separates the parts: ["ab","c"] and ["a","bc"] are different texts.
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

/** A digest, since ids can be long. */
function taskDigest(server: string, taskId: string): string {
  return createHash('sha256')
    .update(JSON.stringify([server, taskId]))
    .digest('base64url');
}
