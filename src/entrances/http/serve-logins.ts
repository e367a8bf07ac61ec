import { randomBytes } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { isAmbitError } from '../../errors.ts';
import type { Gateway } from '../../gateway/gateway.ts';
import { type LoginPage, sendPage } from './login-page.ts';

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
  request.resume();
  response.setHeader('cache-control', 'no-store');
  const { publicUrl } = gateway.config.listen;
  const [path = ''] = (request.url ?? '').split('?', 1);
  const [ticket, tag] = [linkPath.exec(path)?.[1], clientPath.exec(path)?.[1]];
  if (publicUrl === undefined) return nothing(response);
  if (tag !== undefined && request.method === 'GET') {
    const bytes = Buffer.from(JSON.stringify(gateway.logins.client(tag)));
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': bytes.length }).end(bytes);
    return;
  }
  try {
    if (ticket !== undefined && request.method === 'GET') return showLink(gateway, ticket, response);
    if (ticket !== undefined && request.method === 'POST') {
      return await follow(gateway, ticket, new URL(publicUrl), request, response);
    }
    if (callbackPath.test(path) && request.method === 'GET') {
      return await comeBack(gateway, new URL(publicUrl), request, response);
    }
  } catch (error) {
    if (!isAmbitError(error)) throw error;
    sendPage(response, error.row.http, { title: 'That did not work', words: [error.message] });
    return;
  }
  nothing(response);
}

const ranOut: LoginPage = { title: 'This link has run out', words: ['Try again where you got it, for a new one.'] };

function showLink(gateway: Gateway, ticket: string, response: ServerResponse): void {
  const whose = gateway.logins.linked(ticket);
  sendPage(response, whose === undefined ? 410 : 200, whose === undefined ? ranOut : question(whose));
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

/** Only from our own page: a page elsewhere must not say yes in somebody's name. */
async function follow(
  gateway: Gateway,
  ticket: string,
  base: URL,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  if (request.headers.origin !== base.origin) return nothing(response);
  const whose = gateway.logins.linked(ticket);
  if (whose === undefined) return sendPage(response, 410, ranOut);
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

function nothing(response: ServerResponse): void {
  sendPage(response, 404, { title: 'There is nothing here', words: [] });
}
