import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import { createGuardedFetch, createLoginHosts, NoAnswerError } from '../../../src/upstreams/auth/guarded-fetch.ts';

const open: { close(): void }[] = [];
afterEach(() => {
  for (const each of open.splice(0)) each.close();
});

async function listening(handle: RequestListener): Promise<number> {
  const server = createServer(handle).listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  open.push({
    close() {
      server.closeAllConnections();
      server.close();
    },
  });
  return (server.address() as AddressInfo).port;
}

const get = { method: 'GET', headers: {} };
const local = new URL('http://127.0.0.1:1/mcp');
const far = new URL('https://tools.example.com/mcp');

describe('the hosts of a login', () => {
  const names: Record<string, readonly string[]> = {
    'tools.example.com': ['93.184.215.14'],
    'public.example.com': ['1.1.1.1', '10.0.0.5'],
    'inside.example.com': ['10.0.0.5'],
    'cloud.example.com': ['169.254.169.254'],
    'mapped.example.com': ['::ffff:10.0.0.5'],
    'home.corp': ['10.9.9.9'],
    'login.corp': ['10.9.9.9'],
    'other.corp': ['10.9.9.8'],
  };
  const resolve = async (host: string) => names[host] ?? Promise.reject(new Error('ENOTFOUND'));
  const addresses = (server: URL, url: string, hosts: readonly string[] = []) =>
    createLoginHosts({ server, hosts, resolve }).addressesOf(new URL(url));

  test('only to public addresses, whatever else a name has', async () => {
    expect(await addresses(far, 'https://public.example.com/')).toEqual(['1.1.1.1']);
    for (const name of ['inside', 'cloud', 'mapped']) {
      await expect(addresses(far, `https://${name}.example.com/`)).rejects.toMatchObject({ code: 'LOGIN_FAILED' });
    }
    await expect(addresses(far, 'https://localhost/')).rejects.toMatchObject({ code: 'LOGIN_FAILED' });
    await expect(addresses(far, 'http://127.0.0.1:8080/')).rejects.toMatchObject({ code: 'LOGIN_FAILED' });
    await expect(addresses(far, 'http://public.example.com/')).rejects.toMatchObject({ code: 'LOGIN_FAILED' });
  });

  test('to a private address only at the server itself, or where the operator allows it', async () => {
    const corp = new URL('https://home.corp/mcp');
    expect(await addresses(corp, 'https://login.corp/')).toEqual(['10.9.9.9']);
    await expect(addresses(corp, 'https://other.corp/')).rejects.toMatchObject({ code: 'LOGIN_FAILED' });
    expect(await addresses(corp, 'https://other.corp/', ['other.corp:443'])).toEqual(['10.9.9.8']);
    await expect(addresses(corp, 'https://other.corp:8443/', ['other.corp:443'])).rejects.toMatchObject({
      code: 'LOGIN_FAILED',
    });
  });
});

describe('a request of a login', () => {
  test('connects to the address that was checked, even when the name resolves to another later', async () => {
    const port = await listening((request, response) => response.end(request.headers.host));
    let asked = 0;
    const reach = {
      assertForBrowser() {},
      async addressesOf() {
        asked++;
        return ['127.0.0.1'];
      },
    };
    // No resolver knows this name: only what was answered here can be connected to.
    const response = await createGuardedFetch(reach)(`http://nowhere.invalid:${port}/`, get);
    expect(await response.text()).toBe(`nowhere.invalid:${port}`);
    expect(asked).toBe(1);
  });

  test('follows a few redirects and checks each; a POST follows none', async () => {
    let to = 'https://10.0.0.1/';
    const heard: string[] = [];
    const port = await listening((request, response) => {
      heard.push(`${request.method} ${request.url}`);
      if (request.url === '/end') response.end('here');
      else response.writeHead(302, { location: to }).end();
    });
    const fetch = createGuardedFetch(createLoginHosts({ server: local, hosts: [] }));
    const start = `http://127.0.0.1:${port}/start`;
    await expect(fetch(start, get)).rejects.toMatchObject({ code: 'LOGIN_FAILED' });
    to = '/end';
    expect(await (await fetch(start, get)).text()).toBe('here');
    to = '/start';
    heard.splice(0);
    expect((await fetch(start, get)).status).toBe(302);
    expect(heard).toHaveLength(4);
    to = '/end';
    expect((await fetch(start, { method: 'POST', headers: {}, body: 'code=1' })).status).toBe(302);
    expect(heard.at(-1)).toBe('POST /start');
  });

  test('limits the size and the time of an answer, and reports whether anything was sent', async () => {
    const port = await listening((request, response) => {
      if (request.url === '/long') response.end(Buffer.alloc(300_000));
      else if (request.url === '/cut') request.socket.destroy();
    });
    const fetch = createGuardedFetch(createLoginHosts({ server: local, hosts: [] }), 500);
    for (const path of ['/long', '/never', '/cut']) {
      const error = await fetch(`http://127.0.0.1:${port}${path}`, get).catch((each: unknown) => each);
      expect(error).toBeInstanceOf(NoAnswerError);
      expect(error).toMatchObject({ sent: true });
    }
    await expect(fetch('http://127.0.0.1:1/', get)).rejects.toMatchObject({ name: 'NoAnswerError', sent: false });
  });
});
