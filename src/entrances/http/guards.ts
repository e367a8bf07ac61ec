import type { IncomingMessage } from 'node:http';
import type { Config } from '../../config/schema/schema.ts';

interface GuardRefusal {
  readonly event: 'host' | 'origin';
  readonly status: number;
  readonly message: string;
}

const loopbackNames = new Set(['localhost', '127.0.0.1', '[::1]']);

/**
 * The checks before the pipeline. A web page in the user's browser can reach a local port by a name of its own
 * (DNS rebinding): so the name a request was sent to, and the page it came from, must be ones we expect.
 */
export function createGuards(listen: Config['listen']): (request: IncomingMessage) => GuardRefusal | undefined {
  const hosts = new Set(
    [...loopbackNames, listen.host, `[${listen.host}]`, ...(listen.allowedHosts ?? [])].map(toLowerCase),
  );
  if (listen.publicUrl !== undefined) hosts.add(new URL(listen.publicUrl).hostname.toLowerCase());
  const origins = new Set((listen.allowedOrigins ?? []).map(toLowerCase));
  // Nearly every request names the host that the one before it named.
  let lastHost: string | undefined;

  return function guard(request) {
    const { host, origin } = request.headers;
    // HTTP/1.1 asks for one; older clients do not know it, and are not answered for.
    if (host === undefined && request.httpVersion === '1.1') {
      return { event: 'host', status: 400, message: 'The Host header is missing' };
    }
    if (host === undefined || (host !== lastHost && !(hosts.has(readHostName(host)) || hosts.has(toLowerCase(host))))) {
      return {
        event: 'host',
        status: 403,
        message: 'The Host header names a host that this gateway does not answer for',
      };
    }
    lastHost = host;
    if (origin !== undefined && !origins.has(origin.toLowerCase()) && !hosts.has(readOriginHost(origin))) {
      return { event: 'origin', status: 403, message: 'Requests from this Origin are not accepted' };
    }
    return undefined;
  };
}

export function isJson(request: IncomingMessage): boolean {
  const type = request.headers['content-type'];
  if (type === 'application/json') return true;
  return type !== undefined && /^application\/json\s*(?:;|$)/i.test(type);
}

export function isLoopback(address: string | undefined): boolean {
  return address === '127.0.0.1' || address === '::1' || (address?.replace(/^::ffff:/, '').startsWith('127.') ?? false);
}

/** Whether a Host header names this machine in the way that only the machine itself is reached by. */
export function namesLoopback(host: string | undefined): boolean {
  return host !== undefined && loopbackNames.has(readHostName(host));
}

/**
 * Whether a form was sent by a page of `base` itself. Browsers name the page in `Origin`, and say in `Sec-Fetch-Site`
 * how near it is; the latter only to https and to this machine. What does not say so is taken for another page.
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

/** Empty for what is no host and port, or no part of a URL, so that nothing can hide behind a name we know. */
function readHostName(host: string): string {
  const name = hostAndPort.exec(host.toLowerCase())?.[1] ?? '';
  return URL.canParse(`http://${host}`) ? name : '';
}

function readOriginHost(origin: string): string {
  const parts = /^https?:\/\/(.+)$/i.exec(origin);
  return parts === null ? '' : readHostName(parts[1] as string);
}
