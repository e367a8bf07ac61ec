import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { vi } from 'vitest';

/** The messages an upstream received and sent, recorded outside of Ambit. */
export interface Evidence {
  /** The youngest request that fits, once it has arrived. */
  request(fits: MessageFilter): Promise<SeenRequest>;
  /** Resolves when the upstream can take notice of what nobody asked for: its GET stream is open, where it has one. */
  listening(): Promise<void>;
  /** Whether the client's goodbye has arrived. */
  farewell(): Promise<void>;
  /** Process ids of the upstream, the oldest first; empty over HTTP. */
  pids(): number[];
}

export interface SeenRequest {
  readonly message: WireMessage;
  readonly cancelled: boolean;
  readonly answered: boolean;
}

export interface WireMessage {
  readonly id?: string | number;
  readonly method?: string;
  readonly params?: {
    readonly requestId?: string | number;
    readonly capabilities?: Readonly<Record<string, unknown>>;
    readonly _meta?: Readonly<Record<string, unknown>>;
  };
}

export type MessageFilter = (message: WireMessage) => boolean;

export const markKey = 'com.example/mark';

/** Fits the request that carries this mark in its `_meta`, which no part of MCP touches. */
export function hasMark(mark: string): MessageFilter {
  return ({ params }) => params?._meta?.[markKey] === mark;
}

const tap = pathToFileURL(join(import.meta.dirname, 'tap-stdio.js')).href;

/** Arguments for node that make a stdio server leave evidence in a folder. */
export function tapArguments(folder: string): string[] {
  return ['--import', `${tap}?to=${encodeURIComponent(folder)}`];
}

export interface StdioEvidence extends Evidence {
  /** Resolves when the server has sent this. */
  said(fits: MessageFilter): Promise<void>;
}

export function readStdioEvidence(folder: string): StdioEvidence {
  function pids(): number[] {
    const names = readdirSync(folder).filter((name) => name.endsWith('.in'));
    return names.map((name) => Number.parseInt(name, 10)).sort((a, b) => a - b);
  }

  function messages(pid: number, way: 'in' | 'out'): WireMessage[] {
    const file = join(folder, `${pid}.${way}`);
    if (!existsSync(file)) return [];
    const lines = readFileSync(file, 'utf8').split('\n');
    return lines.slice(0, -1).map((line) => JSON.parse(line) as WireMessage);
  }

  function find(fits: MessageFilter): SeenRequest {
    for (const pid of pids()) {
      const request = messages(pid, 'in').findLast(fits);
      if (request === undefined) continue;
      return {
        message: request,
        get cancelled() {
          return messages(pid, 'in').some(
            ({ method, params }) => isCancellation(method) && params?.requestId === request.id,
          );
        },
        get answered() {
          return messages(pid, 'out').some(({ id, method }) => method === undefined && id === request.id);
        },
      };
    }
    throw new Error('the upstream has not seen the request');
  }

  return {
    pids,
    request: (fits) => vi.waitFor(() => find(fits), { timeout: 30_000, interval: 15 }),
    said: (fits) =>
      vi.waitFor(
        () => {
          if (!pids().some((pid) => messages(pid, 'out').some(fits))) throw new Error('the server has not said it');
        },
        { timeout: 30_000, interval: 15 },
      ),
    listening: async () => {},
    farewell: () =>
      vi.waitFor(
        () => {
          const left = pids().filter(isAlive);
          if (left.length > 0) throw new Error(`still running: ${left}`);
        },
        { timeout: 30_000, interval: 10 },
      ),
  };
}

export function isCancellation(method: string | undefined): boolean {
  return method === 'notifications/cancelled';
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
