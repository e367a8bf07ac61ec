import { request as httpRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import type { LookupFunction } from 'node:net';
import { isIPv6 } from 'node:net';
import { isAmbitError } from '../../../errors.ts';
import type { Reach } from './reach.ts';

/** As much of `fetch` as the library of OAuth asks for. */
export type GuardedFetch = (url: string, init: FetchInit) => Promise<Response>;

export interface FetchInit {
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: unknown;
}

/** Nothing came back. Whether anything was sent decides whether it may be sent again. */
export class NoAnswer extends Error {
  readonly sent: boolean;

  constructor(message: string, sent: boolean) {
    super(message);
    this.name = 'NoAnswer';
    this.sent = sent;
  }
}

const patienceMs = 10_000;
const longestAnswer = 262_144;
const mostRedirects = 3;

/** Goes only where a login may lead, connects to the very addresses that were looked at, and reads only so much. */
export function createGuardedFetch(reach: Reach, limitMs = patienceMs): GuardedFetch {
  async function once(url: URL, init: FetchInit, signal: AbortSignal): Promise<Response> {
    const addresses = await reach.addressesOf(url);
    return ask(url, init, addresses, signal);
  }

  return async (address, init) => {
    const signal = AbortSignal.timeout(limitMs);
    let url = new URL(address);
    for (let left = mostRedirects; ; left--) {
      const response = await once(url, init, signal);
      const location = response.headers.get('location');
      const moved = [301, 302, 303, 307, 308].includes(response.status) && location !== null;
      // What is posted holds codes and tokens: it goes where it was meant to go and nowhere else.
      if (!moved || left === 0 || init.method !== 'GET' || !URL.canParse(location, url.href)) return response;
      url = new URL(location, url);
    }
  };
}

function ask(url: URL, init: FetchInit, addresses: readonly string[], signal: AbortSignal): Promise<Response> {
  const found = addresses.map((address) => ({ address, family: isIPv6(address) ? 6 : 4 }));
  const lookup: LookupFunction = (_host, { all }, done) => {
    const [first] = found;
    if (all === true) done(null, found);
    else done(first === undefined ? new Error('no address') : null, first?.address ?? '', first?.family);
  };
  const body = init.body === undefined || init.body === null ? undefined : Buffer.from(String(init.body));
  return new Promise((resolve, reject) => {
    let sent = false;
    const fail = (error: Error) => reject(isAmbitError(error) ? error : new NoAnswer(error.message, sent));
    const request = (url.protocol === 'https:' ? httpsRequest : httpRequest)(url, {
      method: init.method,
      agent: false,
      signal,
      lookup,
      headers: { ...init.headers, ...(body === undefined ? {} : { 'content-length': body.length }) },
    });
    request.on('socket', (socket) => {
      socket.once(url.protocol === 'https:' ? 'secureConnect' : 'connect', () => {
        sent = true;
      });
    });
    request.on('error', fail);
    let isAnswered = false;
    request.on('response', (response) => {
      isAnswered = true;
      read(response).then(resolve, fail);
    });
    // A switch to another protocol ends a request without a response and without an error.
    request.on('close', () => {
      if (!isAnswered) fail(new Error('it broke off'));
    });
    request.end(body);
  });
}

async function read(response: IncomingMessage): Promise<Response> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > longestAnswer) {
      response.destroy();
      throw new Error('the answer is too long');
    }
    chunks.push(chunk);
  }
  const headers = new Headers();
  for (const name of ['content-type', 'location', 'www-authenticate']) {
    const value = response.headers[name];
    if (typeof value === 'string') headers.set(name, value);
  }
  const status = response.statusCode ?? 500;
  const bodyless = status === 204 || status === 205 || status === 304 || status < 200;
  return new Response(bodyless ? null : Buffer.concat(chunks), { status: status < 200 ? 500 : status, headers });
}
