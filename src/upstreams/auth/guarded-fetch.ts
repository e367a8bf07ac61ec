import { request as httpRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import type { LookupFunction } from 'node:net';
import { isIPv6 } from 'node:net';
import { AmbitError, isAmbitError } from '../../errors.ts';
import {
  canonicalizeAddress,
  type HostAndPort,
  parseHostAndPort,
  type ResolveHost,
  resolveHost,
} from '../../lib/net/host-and-port.ts';
import { isPrivateAddress } from '../../lib/net/private-addresses.ts';

/** The hosts that requests of a login may reach. Their addresses come from the server, which is not trusted. */
export interface LoginHosts {
  /** Resolves the addresses to connect to, once; throws when the host may not be reached. */
  addressesOf(url: URL): Promise<readonly string[]>;
  /** Throws when a browser must not be sent to this address. */
  assertForBrowser(url: URL): void;
}

interface LoginHostsOptions {
  /** The address of the server, which the operator wrote: other services on the same machine may be reached. */
  readonly server: URL;
  /** Further hosts that may be on a private network, as `host:port`. */
  readonly hosts: readonly string[];
  readonly resolve?: ResolveHost;
}

/** The part of `fetch` that the OAuth library needs. */
export type GuardedFetch = (url: string, init: FetchInit) => Promise<Response>;

interface FetchInit {
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: unknown;
}

/** No answer came. A request that was not sent may be repeated. */
export class NoAnswerError extends Error {
  readonly sent: boolean;

  constructor(message: string, sent: boolean) {
    super(message);
    this.name = 'NoAnswerError';
    this.sent = sent;
  }
}

const defaultTimeoutMs = 10_000;
const maxAnswerBytes = 262_144;
const maxRedirects = 3;

/** Creates a fetch that reaches only allowed hosts, at the addresses that were checked, and bounds the answer. */
export function createGuardedFetch(loginHosts: LoginHosts, timeoutMs = defaultTimeoutMs): GuardedFetch {
  async function fetchOnce(url: URL, init: FetchInit, signal: AbortSignal): Promise<Response> {
    const addresses = await loginHosts.addressesOf(url);
    return requestAddresses(url, init, addresses, signal);
  }

  return async (address, init) => {
    const signal = AbortSignal.timeout(timeoutMs);
    let url = new URL(address);
    for (let left = maxRedirects; ; left--) {
      const response = await fetchOnce(url, init, signal);
      const location = response.headers.get('location');
      const moved = [301, 302, 303, 307, 308].includes(response.status) && location !== null;
      // A POST holds codes and tokens, so it never follows a redirect.
      if (!moved || left === 0 || init.method !== 'GET' || !URL.canParse(location, url.href)) return response;
      url = new URL(location, url);
    }
  };
}

function requestAddresses(
  url: URL,
  init: FetchInit,
  addresses: readonly string[],
  signal: AbortSignal,
): Promise<Response> {
  const found = addresses.map((address) => ({ address, family: isIPv6(address) ? 6 : 4 }));
  const lookup: LookupFunction = (_host, { all }, done) => {
    const [first] = found;
    if (all === true) done(null, found);
    else done(first === undefined ? new Error('no address') : null, first?.address ?? '', first?.family);
  };
  const body = init.body === undefined || init.body === null ? undefined : Buffer.from(String(init.body));
  return new Promise((resolve, reject) => {
    let sent = false;
    const fail = (error: Error) => reject(isAmbitError(error) ? error : new NoAnswerError(error.message, sent));
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
      readResponse(response).then(resolve, fail);
    });
    // A switch to another protocol ends a request without a response and without an error.
    request.on('close', () => {
      if (!isAnswered) fail(new Error('the connection was lost'));
    });
    request.end(body);
  });
}

async function readResponse(response: IncomingMessage): Promise<Response> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > maxAnswerBytes) {
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

export function createLoginHosts({ server, hosts: listedHosts, resolve = resolveHost }: LoginHostsOptions): LoginHosts {
  const allowed = new Set(listedHosts.flatMap((entry) => hostKey(parseHostAndPort(entry)) ?? []));
  const isLocal = isLoopbackHost(readUrl(server)?.host ?? '');

  async function resolveAddresses(host: string, literal: boolean): Promise<readonly string[]> {
    if (literal) return [host];
    // This name means the machine itself, whatever a resolver answers.
    if (host === 'localhost') return ['127.0.0.1', '::1'];
    const found = await resolve(host).catch((cause) => {
      throw new AmbitError('LOGIN_FAILED', { what: `The host ${host} cannot be found.`, cause });
    });
    return found.flatMap((address) => canonicalizeAddress(address) ?? []);
  }

  function assertAllowedUrl(url: URL): HostAndPort {
    const read = readUrl(url);
    if (read === undefined || url.username !== '' || url.password !== '')
      throw hostRefusedError(url, 'it is not a plain address');
    if (url.protocol !== 'https:' && !(url.protocol === 'http:' && isLocal && isLoopbackHost(read.host))) {
      throw hostRefusedError(url, 'it is not https');
    }
    return read;
  }

  return {
    assertForBrowser: (url) => void assertAllowedUrl(url),
    async addressesOf(url) {
      const { host, port, literal } = assertAllowedUrl(url);
      const found = await resolveAddresses(host, literal);
      if (allowed.has(`${host} ${port}`)) return found;
      const home = readUrl(server);
      const own = home === undefined ? [] : await resolveAddresses(home.host, home.literal).catch(() => []);
      const open = found.filter(
        (address) => !isPrivateAddress(address) || own.includes(address) || (isLocal && isLoopbackHost(address)),
      );
      if (open.length === 0) throw hostRefusedError(url, 'it is not a public address');
      return open;
    },
  };
}

function readUrl(url: URL): HostAndPort | undefined {
  return parseHostAndPort(`${url.hostname}:${url.port || (url.protocol === 'http:' ? 80 : 443)}`);
}

function hostKey(read: HostAndPort | undefined): string | undefined {
  return read === undefined ? undefined : `${read.host} ${read.port}`;
}

function isLoopbackHost(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127\.\d+\.\d+\.\d+$/.test(host);
}

function hostRefusedError(url: URL, why: string): AmbitError {
  return new AmbitError('LOGIN_FAILED', {
    what: `The login of this server needs ${url.origin}, which is not allowed: ${why}.`,
    hint: 'The operator can allow the host in servers.<name>.oauth.hosts.',
  });
}
