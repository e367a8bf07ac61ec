import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'vitest';
import { proof } from '../../proof.ts';
import { isAlive } from '../../sandbox/tagged-processes.ts';
import { maxWaitMs, type ProbedAmbit, type ProcessState, waitUntilNothingIsLeft } from '../start-probed-ambit.ts';
import { connectRawClient, type Era, eras, type RawClient, type Whoami } from './raw-client.ts';

/** A session with a client in it and a process of its own. */
export interface OpenSession extends RawClient {
  readonly id: string;
  readonly token: string;
  readonly upstream: Whoami;
}

/** One way to abandon sessions; it is given a wave of them, half in each era. */
export interface AbandonMethod {
  readonly name: string;
  readonly server: string;
  abandon(guests: readonly OpenSession[], ambit: ProbedAmbit): Promise<void>;
}

const waveSize = 20;

/** All ways at once, since every process costs time; the proof goes each by itself, and so says which it was. */
export function groupMethods(
  ways: readonly AbandonMethod[],
): { readonly name: string; readonly ways: readonly AbandonMethod[] }[] {
  return proof ? ways.map((way) => ({ name: way.name, ways: [way] })) : [{ name: 'in any way', ways }];
}

/**
 * Sends so many sessions each of the ways, in waves, and after each looks for what is left. A single session of a way
 * is in one era, the single session of the next way in the other.
 */
export async function abandonInWaves(
  ambit: ProbedAmbit,
  ways: readonly AbandonMethod[],
  sessions: number,
): Promise<ProcessState> {
  let held: ProcessState | undefined;
  for (let left = sessions; left > 0; left -= waveSize) {
    const size = Math.min(left, waveSize);
    const welcomed = await Promise.all(
      ways.map(async (way, index) => ({ way, guests: await openSessions(ambit, way, size, index) })),
    );
    const family = welcomed.flatMap(({ way, guests }) =>
      guests
        .flatMap(({ upstream }) => [upstream.pid, ...upstream.grandchildren])
        .map((pid) => ({ way: way.name, identity: identify(pid) })),
    );
    expect(ambit.leftovers().processes.length).toBeGreaterThanOrEqual(size * ways.length);
    await Promise.all(welcomed.map(({ way, guests }) => way.abandon(guests, ambit)));
    await waitUntilNothingIsLeft(ambit.dataDir);
    expect(family.filter(({ identity }) => isSameProcess(identity))).toEqual([]);
    held = await waitUntilReleased(ambit);
  }
  expect(await ambit.liveSessions()).toBe(0);
  return held ?? waitUntilReleased(ambit);
}

/** Every way, all at the same time: code is compiled and buffers have their size before anything is measured. */
export async function warmUp(ambit: ProbedAmbit, ways: readonly AbandonMethod[]): Promise<ProcessState> {
  await Promise.all(ways.map(async (way, index) => way.abandon(await openSessions(ambit, way, 6, index), ambit)));
  await waitUntilNothingIsLeft(ambit.dataDir);
  return waitUntilReleased(ambit);
}

/** The promise, for the proof: what the gateway holds comes back to within a tenth of what it held before. */
export function expectHeap(before: ProcessState, after: ProcessState): void {
  expect(after.heapUsed + after.external).toBeLessThan((before.heapUsed + before.external) * 1.1);
}

export async function withTimeout<T>(promise: Promise<T>, what: string): Promise<T> {
  const late = Symbol('late');
  const limit = new AbortController();
  const first = await Promise.race([promise, delay(maxWaitMs, late, { signal: limit.signal })]);
  limit.abort();
  if (first === late) throw new Error(`not within ${maxWaitMs} ms: ${what}`);
  return first as T;
}

function openSessions(ambit: ProbedAmbit, way: AbandonMethod, size: number, from: number): Promise<OpenSession[]> {
  return Promise.all(
    Array.from({ length: size }, (_, index) => openSession(ambit, way, eras[(from + index) % eras.length] as Era)),
  );
}

async function openSession(ambit: ProbedAmbit, way: AbandonMethod, era: Era): Promise<OpenSession> {
  const { id, token } = await ambit.open();
  const visitor = await connectRawClient(era, { url: ambit.mcp(way.server), token });
  return { ...visitor, id, token, upstream: await visitor.whoami() };
}

/** Connections and child handles are let go in the turns after the processes are gone. */
async function waitUntilReleased(ambit: ProbedAmbit): Promise<ProcessState> {
  const began = performance.now();
  for (;;) {
    const held = await ambit.held();
    if (held.sockets === 0 && held.children === 0) return held;
    if (performance.now() - began > maxWaitMs) throw new Error(`still held: ${JSON.stringify(held)}`);
    await delay(20);
  }
}

/** A pid alone may name somebody else by the time we look again. */
function identify(pid: number): string {
  const fields = readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ').pop()?.split(' ');
  return `${pid} ${fields?.[19]}`;
}

function isSameProcess(identity: string): boolean {
  const pid = Number(identity.split(' ')[0]);
  try {
    return isAlive(pid) && identify(pid) === identity;
  } catch {
    return false;
  }
}
