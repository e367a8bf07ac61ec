import type { IncomingMessage } from 'node:http';
import type { Config } from '../../config/schema/schema.ts';

interface GuardRefusal {
  readonly event: 'host' | 'origin';
  readonly status: number;
  readonly message: string;
}

const loopbackNames = new Set(['localhost', '127.0.0.1', '[::1]']);

/**
 * Checks the Host and Origin headers before the pipeline. A web page can reach a local port under its own name (DNS
 * rebinding), so both headers must be expected ones. `ownName` is a further name of the gateway.
 */
export function createGuards(
  listen: Config['listen'],
  ownName?: string,
): (request: IncomingMessage) => GuardRefusal | undefined {
  const hosts = new Set(
    [...loopbackNames, listen.host, `[${listen.host}]`, ...(listen.allowedHosts ?? [])].map(toLowerCase),
  );
  if (ownName !== undefined) hosts.add(ownName);
  if (listen.publicUrl !== undefined) hosts.add(new URL(listen.publicUrl).hostname.toLowerCase());
  const origins = new Set((listen.allowedOrigins ?? []).map(toLowerCase));
  // Nearly all requests name the same host, so the last one is remembered.
  let lastHost: string | undefined;

  return function guard(request) {
    const { host, origin } = request.headers;
    // HTTP/1.1 requires the header. Older clients do not send it and get the error below.
    if (host === undefined && request.httpVersion === '1.1') {
      return { event: 'host', status: 400, message: 'The Host header is missing' };
    }
    if (host === undefined || (host !== lastHost && !(hosts.has(readHostName(host)) || hosts.has(toLowerCase(host))))) {
      return {
        event: 'host',
        status: 403,
        message: 'The Host header names a host that this gateway does not serve',
      };
    }
    lastHost = host;
    if (origin !== undefined && !origins.has(origin.toLowerCase()) && !hosts.has(readOriginHost(origin))) {
      return { event: 'origin', status: 403, message: 'Requests from this Origin are not accepted' };
    }
    return undefined;
  };
}

/**
 * Tells whether a request was sent by a page that is not of this gateway. A page of another port has the same host, and
 * browsers count it as the same site, so only the exact origin counts. Call it after the guard has checked the Host.
 */
export function createPageCheck(listen: Config['listen']): (request: IncomingMessage) => boolean {
  const origins = new Set((listen.allowedOrigins ?? []).map(toLowerCase));
  const publicUrl = listen.publicUrl === undefined ? undefined : new URL(listen.publicUrl);

  function isOwnOrigin(origin: string, host = ''): boolean {
    if (origin === publicUrl?.origin) return true;
    // A page of the public host without TLS may come from somebody on the network.
    return host.toLowerCase() !== publicUrl?.host && origin === readOwnOrigin(host);
  }

  return function isForeignPage({ headers }) {
    const { origin, host } = headers;
    if (origin !== undefined && origins.has(origin.toLowerCase())) return false;
    if (origin !== undefined && !isOwnOrigin(origin, host)) return true;
    // Browsers send no Origin with some requests, such as those of images and links, but they always tell the site.
    const site = headers['sec-fetch-site'];
    return site !== undefined && site !== 'same-origin' && site !== 'none';
  };
}

function readOwnOrigin(host: string): string | undefined {
  return URL.canParse(`http://${host}`) ? new URL(`http://${host}`).origin : undefined;
}

export function isJson(request: IncomingMessage): boolean {
  const type = request.headers['content-type'];
  if (type === 'application/json') return true;
  return type !== undefined && /^application\/json\s*(?:;|$)/i.test(type);
}

export function isLoopback(address: string | undefined): boolean {
  return address === '127.0.0.1' || address === '::1' || (address?.replace(/^::ffff:/, '').startsWith('127.') ?? false);
}

/** Tells whether a Host header names this machine by a loopback name. */
export function namesLoopback(host: string | undefined): boolean {
  return host !== undefined && loopbackNames.has(readHostName(host));
}

/**
 * Tells whether a form was sent by a page of `base`. Browsers send the page in `Origin` and how near it is in
 * `Sec-Fetch-Site`, the latter only to https and to this machine. Without these headers the form counts as foreign.
 */
export function isFromOwnPage({ headers }: IncomingMessage, base: URL): boolean {
  const isTold = base.protocol === 'https:' || loopbackNames.has(base.hostname) || isLoopback(base.hostname);
  const site = headers['sec-fetch-site'] ?? (isTold ? 'unknown' : 'same-origin');
  return headers.origin === base.origin && site === 'same-origin';
}

function toLowerCase(text: string): string {
  return text.toLowerCase();
}

const hostAndPort = /^(\[[0-9a-f:.]+\]|[^\s:@/[\]]+)(?::\d{0,5})?$/;

/** Returns an empty string for anything but a host and port, so that nothing can hide behind a known name. */
function readHostName(host: string): string {
  const name = hostAndPort.exec(host.toLowerCase())?.[1] ?? '';
  return URL.canParse(`http://${host}`) ? name : '';
}

function readOriginHost(origin: string): string {
  const parts = /^https?:\/\/(.+)$/i.exec(origin);
  return parts === null ? '' : readHostName(parts[1] as string);
}
