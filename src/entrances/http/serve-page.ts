import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { extname, join } from 'node:path';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { Gateway } from '../../gateway/gateway.ts';
import { pathWithoutQuery, recordRefusal, sendJson } from './http-parts.ts';
import { dropBody } from './read-body.ts';

interface PageFile {
  readonly type: string;
  readonly bytes: Buffer;
  readonly zipped: Buffer;
  readonly etag: string;
  /** The name contains a hash of the content, so the content of an address never changes. */
  readonly isHashed: boolean;
}

/** Serves the files of the web console. They hold no data, so they need no credential and no store. */
type ServePage = (request: IncomingMessage, response: ServerResponse) => Promise<void>;

const notBuilt = 'This installation was built without the web console. Build it with: npm run build';

const types: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.woff2': 'font/woff2',
};

const contentPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self' data:",
  "font-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
].join('; ');

const safetyHeaders = {
  'content-security-policy': contentPolicy,
  'x-frame-options': 'DENY',
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': 'camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()',
};

export function isPagePath(path: string): boolean {
  return path === '/' || path === '/favicon.svg' || path.startsWith('/assets/');
}

/** Serves the files of a folder. They are read once; a path of a request only finds an entry of that list. */
export function createServePage(gateway: Gateway, folder: string): ServePage {
  let loading: Promise<ReadonlyMap<string, PageFile>> | undefined;

  return async function servePage(request, response) {
    const { method, url = '', headers } = request;
    dropBody(request, response, true);
    if (method !== 'GET' && method !== 'HEAD') return refuse(request, response, 405);
    loading ??= loadFiles(folder);
    const files = await loading;
    if (!files.has('/')) return refuse(request, response, 404, notBuilt);
    const file = files.get(pathWithoutQuery(url));
    if (file === undefined) return refuse(request, response, 404, 'There is nothing at this address.');
    const common = {
      ...safetyHeaders,
      etag: file.etag,
      vary: 'Accept-Encoding',
      'cache-control': file.isHashed ? 'public, max-age=31536000, immutable' : 'no-cache',
    };
    if (matchesEtag(headers['if-none-match'], file.etag)) {
      response.writeHead(304, common).end();
      return;
    }
    const isZipped = acceptsGzip(headers['accept-encoding']) && file.zipped.length < file.bytes.length;
    const body = isZipped ? file.zipped : file.bytes;
    response.writeHead(200, {
      ...common,
      'content-type': file.type,
      'content-length': body.length,
      ...(isZipped ? { 'content-encoding': 'gzip' } : {}),
    });
    response.end(method === 'HEAD' ? undefined : body);
  };

  function refuse(request: IncomingMessage, response: ServerResponse, status: 404 | 405, hint = ''): void {
    gateway.metrics.httpRefused(status);
    recordRefusal(gateway, request, { event: status === 404 ? 'address' : 'method', status });
    if (status === 404) sendJson(response, 404, { error: 'Not found', error_description: hint });
    else response.writeHead(405, { allow: 'GET, HEAD', 'content-length': 0 }).end();
  }
}

/** Loads the page, its icon and its assets, by their addresses. The list is empty if the page was not built. */
async function loadFiles(folder: string): Promise<ReadonlyMap<string, PageFile>> {
  const assets = await readdir(join(folder, 'assets'), { withFileTypes: true }).catch(() => []);
  const named: [address: string, file: string][] = [
    ['/', 'index.html'],
    ['/favicon.svg', 'favicon.svg'],
    ...assets
      .filter((entry) => entry.isFile())
      .map(({ name }): [string, string] => [`/assets/${name}`, join('assets', name)]),
  ];
  const loaded = await Promise.all(named.map(([address, file]) => loadFile(address, join(folder, file))));
  return new Map(loaded.filter((entry) => entry !== undefined));
}

async function loadFile(address: string, path: string): Promise<readonly [string, PageFile] | undefined> {
  const type = types[extname(path)];
  const bytes = type === undefined ? undefined : await readFile(path).catch(() => undefined);
  if (type === undefined || bytes === undefined) return undefined;
  const digest = createHash('sha256').update(bytes).digest('base64url').slice(0, 27);
  const zipped = await promisify(gzip)(bytes, { level: 9 });
  // The tag is weak, because the zipped and the plain form have the same one.
  return [address, { type, bytes, zipped, etag: `W/"${digest}"`, isHashed: address.startsWith('/assets/') }];
}

function matchesEtag(given: string | undefined, etag: string): boolean {
  if (given === undefined) return false;
  return given.split(',').some((each) => each.trim() === '*' || `W/${each.trim().replace(/^W\//, '')}` === etag);
}

function acceptsGzip(given: string | string[] | undefined = ''): boolean {
  return String(given)
    .split(',')
    .map((each) => each.split(';').map((part) => part.trim().toLowerCase()))
    .some(([name, quality = 'q=1']) => (name === 'gzip' || name === '*') && !/^q=0(?:\.0*)?$/.test(quality));
}
