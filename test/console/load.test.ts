import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { callModern } from '../journeys/json-mcp-client.ts';
import { type CreatedSession, type RunningAmbit, startAmbit } from '../journeys/start-ambit.ts';
import { counts, proof } from '../proof.ts';
import { hasChromium, openBrowser } from './browser.ts';
import { openConsole, readAdminToken } from './open-console.ts';

const sessionCount = counts(150, 5000);
const callsPerSecond = 200;
/** In this time every session has made a call: until then the page learns what each of them does. */
const warmUpMs = 30_000;
const measuredMs = 60_000;
const mostOnPage = 60;

interface ApiRow {
  readonly id: string;
  readonly name: string | null;
  readonly usage: { readonly calls: number };
  readonly activity: { readonly errors: number } | null;
}

describe.runIf(hasChromium())('the list of many sessions', () => {
  let browser: Browser;
  let gateway: RunningAmbit;
  let sessions: CreatedSession[];
  let adminToken: string;
  beforeAll(async () => {
    const started = startAmbit({ sessions: { allowDirect: 'always', maxSessions: sessionCount * 2 } });
    [browser, gateway] = await Promise.all([openBrowser(), started]);
    adminToken = await readAdminToken(gateway);
    sessions = await collect(sessionCount, (at) =>
      ask<CreatedSession>('POST', '', { name: `worker-${at}`, userId: `user-${at % 50}`, trustLevel: 'direct' }),
    );
  }, 120_000);
  afterAll(async () => {
    await browser?.close();
    await gateway?.stop();
  });

  async function ask<T>(method: string, path: string, body?: object): Promise<T> {
    const headers = { authorization: `Bearer ${adminToken}`, 'content-type': 'application/json' };
    const sent = body === undefined ? {} : { body: JSON.stringify(body) };
    const response = await fetch(`${gateway.url}/api/v1/sessions${path}`, { method, headers, ...sent });
    expect(response.ok).toBe(true);
    return (await response.json()) as T;
  }

  /** Opens a session that ends at once. */
  async function comeAndGo(): Promise<void> {
    const { id } = await ask<CreatedSession>('POST', '', { parentId: sessions[0]?.id });
    await ask('DELETE', `/${id}`);
  }

  /** Calls a tool of one session after the other. Every tenth call names a tool that does not exist. */
  const callOne = (at: number) => {
    const { token } = sessions[(at * 7) % sessions.length] as CreatedSession;
    return callModern(`${gateway.url}/mcp/ambit`, token, at % 10 === 9 ? 'no_such_tool' : 'session_info', {});
  };

  async function listSessions(): Promise<ApiRow[]> {
    const rows: ApiRow[] = [];
    for (let after = ''; ; ) {
      const path = `?include=usage,activity&limit=1000${after}`;
      const page = await ask<{ sessions: ApiRow[]; next: string | null }>('GET', path);
      rows.push(...page.sessions);
      if (page.next === null) return rows;
      after = `&after=${encodeURIComponent(page.next)}`;
    }
  }

  /** Compares the rows in view with the API, at some places of the list. */
  async function compareRows(page: Page): Promise<void> {
    const listed = await listSessions();
    expect(listed.length).toBe(sessionCount);
    expect(listed.some(({ usage }) => usage.calls > 0)).toBe(true);
    expect(listed.some(({ activity }) => (activity?.errors ?? 0) > 0)).toBe(true);
    const expected = Object.fromEntries(
      listed.map(({ id, name, usage, activity }) => [id, [name, `${usage.calls}`, `${activity?.errors ?? 0}`]]),
    );
    const seen = new Set<string>();
    for (const part of [0, 0.3, 0.61, 1]) {
      const ids = await waitForRows(page, part, expected);
      expect(ids.length).toBeLessThan(mostOnPage);
      for (const id of ids) seen.add(id);
    }
    expect(seen.size).toBeGreaterThan(80);
  }

  /** Scrolls through the list for a minute while the sessions work, and measures the page. */
  async function workUnderLoad(page: Page): Promise<void> {
    const calls = callSteadily();
    await page.waitForTimeout(warmUpMs);
    const before = await measureHeap(page);
    const longTasks = await watchLongTasks(page);
    const end = Date.now() + measuredMs;
    await page.mouse.move(400, 500);
    for (let direction = 1; Date.now() < end; ) {
      await page.mouse.wheel(0, direction * 2000);
      await page.waitForTimeout(100);
      const place = await page
        .locator('.table-window')
        .evaluate((box) => box.scrollTop / (box.scrollHeight - box.clientHeight));
      if (place > 0.99) direction = -1;
      if (place < 0.01) direction = 1;
    }
    const longest = Math.max(0, ...(await longTasks()));
    const after = await measureHeap(page);
    const made = await calls.stop();
    const [mbBefore, mbAfter] = [before, after].map((bytes) => (bytes / 1e6).toFixed(1));
    console.log(
      `${made} calls; longest task ${longest} ms; heap ${mbBefore} MB after loading, ${mbAfter} MB at the end`,
    );
    expect(made).toBeGreaterThan(((warmUpMs + measuredMs) / 1000) * callsPerSecond * 0.9);
    expect(longest).toBeLessThan(200);
    expect(after).toBeLessThan(before * 1.2);
  }

  /** Makes calls until it is stopped, while sessions come and go. Returns how many were made. */
  function callSteadily() {
    const underWay = new Set<Promise<unknown>>();
    const start = Date.now();
    let made = 0;
    const timer = setInterval(() => {
      for (const due = ((Date.now() - start) / 1000) * callsPerSecond; made < due; made++) {
        const work = made % 40 === 0 ? [callOne(made), comeAndGo()] : [callOne(made)];
        const done = Promise.all(work).finally(() => underWay.delete(done));
        underWay.add(done);
      }
    }, 20);
    return {
      async stop() {
        clearInterval(timer);
        await Promise.all(underWay);
        return made;
      },
    };
  }

  test('only the rows in view are drawn, and they agree with the API', { timeout: 300_000 }, async () => {
    const { page, visit, problems, close } = await openConsole(browser, gateway);
    await visit('/sessions');
    await page.locator('.table-window tbody tr').nth(5).waitFor();
    if (proof) await workUnderLoad(page);
    else await collect(100, callOne);
    await compareRows(page);
    expect(problems).toEqual([]);
    await close();
  });
});

/** Runs work for the numbers from 0, some at a time, and returns the results. */
async function collect<T>(count: number, work: (at: number) => Promise<T>): Promise<T[]> {
  const results: T[] = [];
  let next = 0;
  const runOne = async () => {
    for (let at = next++; at < count; at = next++) results[at] = await work(at);
  };
  await Promise.all(Array.from({ length: 8 }, runOne));
  return results;
}

/** Scrolls to a part of the list, waits until the rows there show these texts, and returns the ids of all drawn rows. */
async function waitForRows(page: Page, part: number, expected: Record<string, readonly unknown[]>): Promise<string[]> {
  const read = await page.waitForFunction(
    ([to, texts]) => {
      const box = document.querySelector('.table-window') as HTMLElement;
      box.scrollTop = to * (box.scrollHeight - box.clientHeight);
      const rows = [...box.querySelectorAll('tbody tr:not(.table-gap)')].map((row) => {
        const link = row.querySelector<HTMLAnchorElement>('.session-name a');
        const [calls, errors] = [...row.querySelectorAll('td.number')].map((cell) => cell.textContent);
        return { id: link?.hash.split('/').at(-1) ?? '', shown: [link?.textContent, calls, errors] };
      });
      const { top, bottom } = box.getBoundingClientRect();
      const middle = document.elementFromPoint(400, (top + bottom) / 2)?.closest('tr:not(.table-gap)');
      const isRight = rows.every(({ id, shown }) => JSON.stringify(shown) === JSON.stringify(texts[id]));
      return middle && rows.length > 5 && isRight ? rows.map(({ id }) => id) : false;
    },
    [part, expected] as const,
  );
  return (await read.jsonValue()) as string[];
}

/** Measures the bytes that live objects of the page take. */
async function measureHeap(page: Page): Promise<number> {
  const devtools = await page.context().newCDPSession(page);
  await devtools.send('HeapProfiler.collectGarbage');
  const { usedSize } = await devtools.send('Runtime.getHeapUsage');
  await devtools.detach();
  return usedSize;
}

/** Collects the tasks that keep the page busy for more than 50 ms. Returns a function that reads their lengths. */
async function watchLongTasks(page: Page): Promise<() => Promise<number[]>> {
  await page.evaluate(() => {
    const found: number[] = [];
    Object.assign(globalThis, { longTasks: found });
    const observer = new PerformanceObserver((list) => {
      found.push(...list.getEntries().map(({ duration }) => duration));
    });
    observer.observe({ type: 'longtask' });
  });
  return () => page.evaluate(() => (globalThis as unknown as { longTasks: number[] }).longTasks);
}
