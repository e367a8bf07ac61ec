import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { audience, type KeyServer, keyServer } from '../../identity/jwt/key-server.ts';
import { proof } from '../../proof.ts';
import { type RunningAmbit, startAmbit } from '../start-ambit.ts';
import { readJournal } from '../start-probed-ambit.ts';
import { fixtureServer, fixtures } from './start-watched-ambit.ts';
import { type CallStatistics, startWorkingSessions, type WorkingSessions } from './working-sessions.ts';

/** The floods of `client-without-token.js`. */
const floods = [
  ...['big-bodies', 'many-keys', 'endless-bodies', 'idle-connections', 'slow-heads', 'slow-bodies', 'long-heads'],
  ...['pipelines', 'dense-pipelines', 'half-closed', 'requests', 'unknown-addresses', 'guessed-tokens', 'forged-jwts'],
];
const sessions = 50;
const stretchMs = 5000;
const backToNormalMs = 10_000;
/** Bodies that are kept at a time have 64 MB; the rest is garbage that is not collected yet. */
const growthMb = 128;
const leftMb = 64;
/** Only little is read of a connection without a credential. */
const readOfStranger = 512 * 1024;
const readOfCall = 32 * 1024;
/** The kernel may hand over connections whose client is gone already: like all that are idle, they have ten seconds. */
const strangersOfOneAddress = 256;
/** A token bucket of 50 lines, two a second after it, and one line for each event that tells how many were left out. */
const maxLines = 50 + 2 * ((stretchMs * 2) / 1000) + 32;

describe.runIf(proof)('a client without a credential floods the port while 50 sessions work', () => {
  let ambit: RunningAmbit;
  let working: WorkingSessions;
  let keys: KeyServer;
  /** The p99 of each stretch without a flood: one alone varies by a factor of three. */
  const quiet: number[] = [];

  beforeAll(async () => {
    keys = await keyServer();
    const jwt = [{ issuer: keys.issuer, audience: [audience], jwksUri: keys.jwksUri, userPrefix: 'x' }];
    const quotas = { session: { callsPerMinute: 1_000_000 } };
    const servers = { calm: fixtureServer('well-behaved.js') };
    ambit = await startAmbit({ quotas, auth: { jwt }, sessions: { allowDirect: 'always' }, servers }, {}, 1024);
    working = await startWorkingSessions(ambit, sessions);
    await working.measure(stretchMs);
  });
  afterAll(async () => {
    await working?.stop();
    await ambit?.stop();
    keys?.close();
  });

  const residentMb = () =>
    Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${ambit.pid}/status`, 'utf8'))?.[1]) / 1024;
  const descriptors = () => readdirSync(`/proc/${ambit.pid}/fd`).length;
  /** Counts files, pipes and sockets. */
  const readBytes = () => Number(/^rchar: (\d+)/m.exec(readFileSync(`/proc/${ambit.pid}/io`, 'utf8'))?.[1]);
  const journalBytes = () => statSync(join(ambit.dataDir, 'journal', 'journal.jsonl')).size;
  const refusals = () => readJournal(ambit.dataDir).filter(({ kind }) => kind === 'refusal').length;

  async function flooded(
    flood: string,
  ): Promise<{ stretch: CallStatistics; peakMb: number; peakOpen: number; sent: string }> {
    // As if it were on another machine: it must not take the processor from the gateway.
    const program = [process.execPath, join(fixtures, 'client-without-token.js'), ambit.url, flood];
    const client = spawn('chrt', ['--idle', '0', ...program], {
      stdio: ['pipe', 'pipe', 'inherit'],
      env: { ...process.env, FORGED_ISSUER: keys.issuer },
    });
    await once(client.stdout, 'data');
    let [peakMb, peakOpen] = [0, 0];
    const look = setInterval(() => {
      peakMb = Math.max(peakMb, residentMb());
      peakOpen = Math.max(peakOpen, descriptors());
    }, 50);
    const stretch = await working.measure(stretchMs);
    clearInterval(look);
    const sent = text(client.stdout);
    client.stdin.end();
    return { stretch, peakMb, peakOpen, sent: (await sent).trim() };
  }

  test.each(floods)('S7: %s: no call fails, p99 within three times, memory and lines within bounds', async (flood) => {
    const before = await working.measure(stretchMs);
    const [mb, open, lines, bytes] = [residentMb(), descriptors(), refusals(), journalBytes()];
    const readBefore = readBytes();
    const during = await flooded(flood);
    const read = readBytes() - readBefore;
    const [written, grown] = [refusals() - lines, journalBytes() - bytes];
    const ended = performance.now();
    let after = await working.measure(stretchMs / 2);
    const isNormal = () =>
      after.p99 < 3 * before.p99 && residentMb() <= mb + leftMb && descriptors() <= open + strangersOfOneAddress;
    while (!isNormal() && performance.now() - ended < backToNormalMs) after = await working.measure(stretchMs / 2);
    quiet.push(before.p99, after.p99);
    const normal = Math.max(before.p99, after.p99, quiet.reduce((sum, each) => sum + each) / quiet.length);
    const { stretch } = during;
    console.log(
      `${flood}: p99 ${before.p99.toFixed(1)} ms before, ${stretch.p99.toFixed(1)} during, ${after.p99.toFixed(1)} after; ` +
        `calls ${before.calls}, ${stretch.calls}, ${after.calls}; memory ${mb.toFixed(0)} MB, at most ${during.peakMb.toFixed(0)}, ` +
        `then ${residentMb().toFixed(0)}; descriptors ${open}, at most ${during.peakOpen}, then ${descriptors()}; ` +
        `${Math.round(read / 1e6)} MB read; ${written} refusals written, journal ${Math.round(grown / stretch.calls)} bytes a call; it sent ${during.sent}`,
    );
    expect([...before.failures, ...stretch.failures, ...after.failures]).toEqual([]);
    expect(stretch.p99).toBeLessThan(3 * normal);
    expect(during.peakMb - mb).toBeLessThan(growthMb);
    const { opened } = JSON.parse(during.sent) as { opened: number };
    expect(read).toBeLessThan(opened * readOfStranger + stretch.calls * readOfCall);
    expect(written).toBeLessThanOrEqual(maxLines);
    expect(isNormal()).toBe(true);
  });
});
