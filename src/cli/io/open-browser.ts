import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { createIsOwnPeer } from '../../entrances/http/admit-caller.ts';

const [patienceMs, askEveryMs] = [20_000, 100];

/**
 * Opens a secret link in the browser of this machine. Resolves with `opened` once `isOpened` is true, with `unused` if a
 * browser came and did not use the link, and with `no browser` if none came.
 *
 * Every account of a machine can read the arguments of its programs. So the opener gets the address of a port of this
 * process instead, which sends one browser of this account on to the link.
 */
export async function openBrowser(
  link: string,
  env: NodeJS.ProcessEnv,
  isOpened: () => Promise<boolean>,
): Promise<'opened' | 'unused' | 'no browser'> {
  const program = findOpener(env);
  if (program === undefined) return 'no browser';
  const door = await openDoor(link);
  const opener = spawn(program, [door.url], { stdio: 'ignore', detached: true, env });
  opener.unref();
  const failed = new Promise<'no browser'>((resolve) => {
    opener.once('error', () => resolve('no browser'));
    opener.once('exit', (code) => {
      if (code !== 0) resolve('no browser');
    });
  });
  const end = new AbortController();
  const late = delay(patienceMs, undefined, { signal: end.signal }).catch(() => {});
  try {
    const first = await Promise.race([door.passed, failed, late]);
    if (first !== 'passed') return 'no browser';
    return (await Promise.race([waitUntil(isOpened, end.signal), late])) ?? 'unused';
  } finally {
    end.abort();
    door.close();
  }
}

/** The browser loads the page before it signs in, and the gateway tells when it has. */
async function waitUntil(isOpened: () => Promise<boolean>, signal: AbortSignal): Promise<'opened' | undefined> {
  while (!signal.aborted) {
    if (await isOpened()) return 'opened';
    await delay(askEveryMs, undefined, { signal }).catch(() => {});
  }
  return undefined;
}

/** Returns the program that opens links. Undefined where there is no screen. */
function findOpener(env: NodeJS.ProcessEnv): string | undefined {
  if (process.platform === 'darwin') return 'open';
  const hasScreen = env['DISPLAY'] !== undefined || env['WAYLAND_DISPLAY'] !== undefined;
  return process.platform === 'linux' && hasScreen ? 'xdg-open' : undefined;
}

interface Door {
  readonly url: string;
  /** Resolves when a browser has been sent on. */
  readonly passed: Promise<'passed'>;
  close(): void;
}

async function openDoor(link: string): Promise<Door> {
  const isOwnPeer = createIsOwnPeer();
  const path = `/${randomBytes(16).toString('hex')}`;
  let pass = () => {};
  const passed = new Promise<'passed'>((resolve) => {
    pass = () => resolve('passed');
  });
  const server = createServer(async (request, response) => {
    response.setHeader('cache-control', 'no-store');
    response.setHeader('connection', 'close');
    const isOurs = request.headers.host === host && request.url === path && request.method === 'GET';
    if (!isOurs || !isOpenedByPerson(request.headers) || !(await isOwnPeer(request.socket))) {
      response.writeHead(404).end();
      return;
    }
    response.writeHead(302, { location: link, 'referrer-policy': 'no-referrer' }).end();
    response.once('close', pass);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { url: `http://${host}${path}`, passed, close: () => void server.close() };
}

/** Pages that fetch the address or lead to it are refused. Only an address that no page led to has the site `none`. */
function isOpenedByPerson(headers: IncomingHttpHeaders): boolean {
  const { 'sec-fetch-mode': mode = 'navigate', 'sec-fetch-site': site = 'none' } = headers;
  return mode === 'navigate' && site === 'none';
}
