import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createIsOwnPeer } from '../../entrances/http/admit-caller.ts';

const patienceMs = 20_000;

/**
 * Opens a secret link in the browser of this machine. Returns false if no browser came for it.
 *
 * Every account of a machine can read the arguments of its programs. So the opener gets the address of a port of this
 * process instead, which sends one browser of this account on to the link.
 */
export async function openBrowser(link: string, env: NodeJS.ProcessEnv): Promise<boolean> {
  const program = findOpener(env);
  if (program === undefined) return false;
  const door = await openDoor(link);
  const opener = spawn(program, [door.url], { stdio: 'ignore', detached: true, env });
  opener.unref();
  const failed = new Promise<boolean>((resolve) => {
    opener.once('error', () => resolve(false));
    opener.once('exit', (code) => {
      if (code !== 0) resolve(false);
    });
  });
  let late: NodeJS.Timeout | undefined;
  const timedOut = new Promise<boolean>((resolve) => {
    late = setTimeout(() => resolve(false), patienceMs);
  });
  try {
    return await Promise.race([door.passed, failed, timedOut]);
  } finally {
    clearTimeout(late);
    door.close();
  }
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
  readonly passed: Promise<boolean>;
  close(): void;
}

async function openDoor(link: string): Promise<Door> {
  const isOwnPeer = createIsOwnPeer();
  const path = `/${randomBytes(16).toString('hex')}`;
  let pass = (_isPassed: boolean) => {};
  const passed = new Promise<boolean>((resolve) => {
    pass = resolve;
  });
  const server = createServer(async (request, response) => {
    response.setHeader('cache-control', 'no-store');
    response.setHeader('connection', 'close');
    const isOurs = request.headers.host === host && request.url === path && request.method === 'GET';
    if (!isOurs || !(await isOwnPeer(request.socket))) {
      response.writeHead(404).end();
      return;
    }
    response.writeHead(302, { location: link, 'referrer-policy': 'no-referrer' }).end();
    response.once('close', () => pass(true));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { url: `http://${host}${path}`, passed, close: () => void server.close() };
}
