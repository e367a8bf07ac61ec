import { randomBytes } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { isAmbitError } from '../../errors.ts';
import type { Gateway } from '../../gateway/gateway.ts';
import { recordRefusal } from './http-parts.ts';
import { type LoginPage, sendPage } from './login-page.ts';
import { dropBody } from './read-body.ts';

const linkPath = /^\/login\/([\w-]{1,4096})$/;
const callbackPath = /^\/oauth\/callback(?:\/[0-9a-f]{16})?$/;
const clientPath = /^\/oauth\/client\/([0-9a-f]{16})\.json$/;
const cookie = 'ambit-login';

export function isLoginPath(path: string): boolean {
  return path.startsWith('/login/') || path.startsWith('/oauth/');
}

/**
 * Logins to servers, in a browser: the page behind a link, the way back from the authorization server, and what Ambit
 * is to it. Whoever opens a link says yes here first, for the user and server it names, and only that browser may come
 * back. Nothing of it is there without `listen.publicUrl`.
 */
export async function serveLogins(gateway: Gateway, request: IncomingMessage, response: ServerResponse): Promise<void> {
  dropBody(request, response, true);
  response.setHeader('cache-control', 'no-store');
  const { publicUrl } = gateway.config.listen;
  const [path = ''] = (request.url ?? '').split('?', 1);
  const [ticket, tag] = [linkPath.exec(path)?.[1], clientPath.exec(path)?.[1]];
  const refuse = createRefuse(gateway, request, response);
  if (publicUrl === undefined) return refuse(404, nothing);
  if (tag !== undefined && request.method === 'GET') {
    const bytes = Buffer.from(JSON.stringify(gateway.logins.client(tag)));
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': bytes.length }).end(bytes);
    return;
  }
  try {
    if (ticket !== undefined && request.method === 'GET') return showLink(gateway, ticket, response, refuse);
    if (ticket !== undefined && request.method === 'POST') {
      return await follow(gateway, ticket, new URL(publicUrl), { request, response, refuse });
    }
    if (callbackPath.test(path) && request.method === 'GET') {
      return await comeBack(gateway, new URL(publicUrl), request, response);
    }
  } catch (error) {
    if (!isAmbitError(error)) throw error;
    refuse(error.row.http, { title: 'That did not work', words: [error.message] }, error.code);
    return;
  }
  refuse(404, nothing);
}

/** Answers with a page that says why not, and writes it down. */
type Refuse = (status: number, page: LoginPage, code?: string) => void;

function createRefuse(gateway: Gateway, request: IncomingMessage, response: ServerResponse): Refuse {
  return function refuse(status, page, code) {
    gateway.metrics.httpRefused(status);
    recordRefusal(gateway, request, { event: 'login', status, code });
    sendPage(response, status, page);
  };
}

const nothing: LoginPage = { title: 'There is nothing here', words: [] };
const ranOut: LoginPage = { title: 'This link has run out', words: ['Try again where you got it, for a new one.'] };

function showLink(gateway: Gateway, ticket: string, response: ServerResponse, refuse: Refuse): void {
  const whose = gateway.logins.linked(ticket);
  if (whose === undefined) refuse(410, ranOut);
  else sendPage(response, 200, question(whose));
}

function question({ userId, server }: { readonly userId: string; readonly server: string }): LoginPage {
  return {
    title: `Log in to “${server}”`,
    words: [
      `Agents that work for “${userId}” will use “${server}” with the account you log in with.`,
      `Go on only if you are “${userId}”, and asked for this yourself.`,
    ],
    button: `Go on as “${userId}”`,
  };
}

interface Followed {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly refuse: Refuse;
}

/** Only from our own page: a page elsewhere must not say yes in somebody's name. */
async function follow(
  gateway: Gateway,
  ticket: string,
  base: URL,
  { request, response, refuse }: Followed,
): Promise<void> {
  if (request.headers.origin !== base.origin) return refuse(404, nothing);
  const whose = gateway.logins.linked(ticket);
  if (whose === undefined) return refuse(410, ranOut);
  const browser = randomBytes(32).toString('base64url');
  const { authorizationUrl } = await gateway.logins.start(whose, undefined, browser);
  const secure = base.protocol === 'https:' ? '; Secure' : '';
  const path = `${base.pathname.replace(/\/$/, '')}/oauth/callback`;
  response.setHeader('set-cookie', `${cookie}=${browser}; HttpOnly; SameSite=Lax; Max-Age=600; Path=${path}${secure}`);
  response.writeHead(303, { location: authorizationUrl, 'referrer-policy': 'no-referrer', 'content-length': 0 }).end();
}

async function comeBack(
  gateway: Gateway,
  base: URL,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const browser = new RegExp(`(?:^|;\\s*)${cookie}=([\\w-]{43})(?:;|$)`).exec(request.headers.cookie ?? '')?.[1];
  const callback = `${base.href.replace(/\/$/, '')}${request.url}`;
  const { userId, server } = await gateway.logins.complete(callback, undefined, browser);
  sendPage(response, 200, {
    title: 'Done',
    words: [`“${userId}” is logged in to “${server}”. This page can be closed.`],
  });
}
