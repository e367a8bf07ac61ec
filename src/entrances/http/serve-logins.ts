import { randomBytes } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { isAmbitError } from '../../errors.ts';
import type { Gateway } from '../../gateway/gateway.ts';
import { isFromOwnPage } from './guards.ts';
import { recordRefusal } from './http-parts.ts';
import { createLoginCookie } from './login-cookie.ts';
import { type LoginPage, sendPage } from './login-page.ts';
import { dropBody } from './read-body.ts';

const linkPath = /^\/login\/([\w-]{1,4096})$/;
const callbackPath = /^\/oauth\/callback(?:\/[0-9a-f]{16})?$/;
const clientPath = /^\/oauth\/client\/([0-9a-f]{16})\.json$/;

export function isLoginPath(path: string): boolean {
  return path.startsWith('/login/') || path.startsWith('/oauth/');
}

/**
 * Logins to servers, in a browser: the page behind a link, the way back from the authorization server, and what Ambit
 * is to it. Whoever opens a link says yes here first, for the user and server it names, and only that browser may come
 * back. Whoever comes back says yes once more: a browser can be led here without its person, with a cookie that
 * another page has set. Nothing of it is there without `listen.publicUrl`.
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
    const visit: Visit = { base: new URL(publicUrl), request, response };
    const isPost = request.method === 'POST';
    if (isPost && (ticket !== undefined || callbackPath.test(path)) && !isFromOwnPage(request, visit.base)) {
      return refuse(403, notOurs);
    }
    if (ticket !== undefined && isPost) return await follow(gateway, ticket, visit, refuse);
    if (callbackPath.test(path) && request.method === 'GET') return await askAgain(gateway, visit);
    if (callbackPath.test(path) && isPost) return await finish(gateway, visit);
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
/** Only our own page may say yes in somebody's name. */
const notOurs: LoginPage = {
  title: 'This did not come from the page of this gateway',
  words: [
    'Nothing was done. If you pressed a button on a page of another site, close that site.',
    'If you pressed it here, your browser does not say where a form comes from: use a newer one, or “ambit login”.',
  ],
};
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
    leadsAway: true,
  };
}

interface Visit {
  readonly base: URL;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

async function follow(gateway: Gateway, ticket: string, { base, response }: Visit, refuse: Refuse): Promise<void> {
  const whose = gateway.logins.linked(ticket);
  if (whose === undefined) return refuse(410, ranOut);
  const browser = randomBytes(32).toString('base64url');
  const { authorizationUrl } = await gateway.logins.start(whose, undefined, browser);
  response.setHeader('set-cookie', createLoginCookie(base).set(browser));
  response.writeHead(303, { location: authorizationUrl, 'referrer-policy': 'no-referrer', 'content-length': 0 }).end();
}

/** The way back: the code is not redeemed before the person says yes. Without a code there is only an error to tell. */
async function askAgain(gateway: Gateway, visit: Visit): Promise<void> {
  const { callback, browser } = wayBack(visit);
  if (!new URL(callback).searchParams.has('code')) return finish(gateway, visit);
  const { userId, server, issuer } = await gateway.logins.look(callback, browser);
  sendPage(visit.response, 200, {
    title: `Finish the login to “${server}”`,
    words: [
      `You come from ${issuer}. Agents that work for “${userId}” will use “${server}” with the account you have there.`,
      `Finish only if you are “${userId}”, and began this yourself. Otherwise close this page, and nothing happens.`,
    ],
    button: `Finish as “${userId}”`,
  });
}

async function finish(gateway: Gateway, visit: Visit): Promise<void> {
  const { callback, browser } = wayBack(visit);
  const { userId, server } = await gateway.logins.complete(callback, undefined, browser);
  sendPage(visit.response, 200, {
    title: 'Done',
    words: [`“${userId}” is logged in to “${server}”. This page can be closed.`],
  });
}

function wayBack({ base, request }: Visit): { readonly callback: string; readonly browser: string | undefined } {
  return {
    callback: `${base.href.replace(/\/$/, '')}${request.url}`,
    browser: createLoginCookie(base).read(request.headers.cookie),
  };
}
