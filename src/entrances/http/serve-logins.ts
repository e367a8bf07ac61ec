import { randomBytes } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { isAmbitError } from '../../errors.ts';
import type { Gateway } from '../../gateway/gateway.ts';
import { isFromOwnPage } from './guards.ts';
import { recordRefusal, sendJson } from './http-parts.ts';
import { dropBody } from './read-body.ts';

interface LoginPage {
  readonly title: string;
  readonly paragraphs: readonly string[];
  /** The text of the button that posts to the same address. No button if undefined. */
  readonly button?: string;
  /** True if the answer to that post redirects to another host. */
  readonly allowsRedirect?: boolean;
}

/** The cookie that ties a login to the browser it began in. */
interface LoginCookie {
  /** Returns the header that sets the cookie. */
  set(value: string): string;
  /** Returns undefined if there is no cookie, or more than one: then somebody else has set one of them. */
  read(header: string | undefined): string | undefined;
}

const cookieName = 'ambit-login';
const cookieSeconds = 600;
const linkPath = /^\/login\/([\w-]{1,4096})$/;
const callbackPath = /^\/oauth\/callback(?:\/[0-9a-f]{16})?$/;
const clientPath = /^\/oauth\/client\/([0-9a-f]{16})\.json$/;

export function isLoginPath(path: string): boolean {
  return path.startsWith('/login/') || path.startsWith('/oauth/');
}

/**
 * Serves logins to servers in a browser: the page behind a link, the return from the authorization server, and the
 * client metadata. The person confirms before and after the authorization, in the same browser. The second question is
 * needed because a page can send a browser here with a cookie that another page has set. Available only with
 * `listen.publicUrl`.
 */
export async function serveLogins(gateway: Gateway, request: IncomingMessage, response: ServerResponse): Promise<void> {
  dropBody(request, response, true);
  response.setHeader('cache-control', 'no-store');
  const { publicUrl } = gateway.config.listen;
  const [path = ''] = (request.url ?? '').split('?', 1);
  const [ticket, tag] = [linkPath.exec(path)?.[1], clientPath.exec(path)?.[1]];
  const refuse = createRefuse(gateway, request, response);
  if (publicUrl === undefined) return refuse(404, notFoundPage);
  if (tag !== undefined && request.method === 'GET') {
    return sendJson(response, 200, gateway.logins.clientDocument(tag));
  }
  try {
    if (ticket !== undefined && request.method === 'GET') return showLink(gateway, ticket, response, refuse);
    const login: LoginRequest = { base: new URL(publicUrl), request, response };
    const isPost = request.method === 'POST';
    if (isPost && (ticket !== undefined || callbackPath.test(path)) && !isFromOwnPage(request, login.base)) {
      return refuse(403, foreignFormPage);
    }
    if (ticket !== undefined && isPost) return await startLogin(gateway, ticket, login, refuse);
    if (callbackPath.test(path) && request.method === 'GET') return await askToFinish(gateway, login);
    if (callbackPath.test(path) && isPost) return await finishLogin(gateway, login);
  } catch (error) {
    if (!isAmbitError(error)) throw error;
    refuse(error.row.http, { title: 'The login failed', paragraphs: [error.message] }, error.code);
    return;
  }
  refuse(404, notFoundPage);
}

/** Answers with a page that gives the reason, and records it. */
type Refuse = (status: number, page: LoginPage, code?: string) => void;

function createRefuse(gateway: Gateway, request: IncomingMessage, response: ServerResponse): Refuse {
  return function refuse(status, page, code) {
    gateway.metrics.httpRefused(status);
    recordRefusal(gateway, request, { event: 'login', status, code });
    sendPage(response, status, page);
  };
}

const notFoundPage: LoginPage = { title: 'Page not found', paragraphs: [] };
/** Only our own page may confirm for a person. */
const foreignFormPage: LoginPage = {
  title: 'The form was not sent from a page of this gateway',
  paragraphs: [
    'Nothing was done. If you pressed a button on a page of another site, close that site.',
    'If you pressed it here, your browser does not report where a form comes from: use a newer browser, or “ambit login”.',
  ],
};
const expiredPage: LoginPage = {
  title: 'This link has expired',
  paragraphs: ['Request a new link where you got this one.'],
};

function showLink(gateway: Gateway, ticket: string, response: ServerResponse, refuse: Refuse): void {
  const whose = gateway.logins.readTicket(ticket);
  if (whose === undefined) refuse(410, expiredPage);
  else sendPage(response, 200, createConfirmPage(whose));
}

function createConfirmPage({ userId, server }: { readonly userId: string; readonly server: string }): LoginPage {
  return {
    title: `Log in to “${server}”`,
    paragraphs: [
      `Agents that work for “${userId}” will use “${server}” with the account you log in with.`,
      `Continue only if you are “${userId}” and started this login yourself.`,
    ],
    button: `Continue as “${userId}”`,
    allowsRedirect: true,
  };
}

interface LoginRequest {
  readonly base: URL;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

async function startLogin(
  gateway: Gateway,
  ticket: string,
  { base, response }: LoginRequest,
  refuse: Refuse,
): Promise<void> {
  const whose = gateway.logins.readTicket(ticket);
  if (whose === undefined) return refuse(410, expiredPage);
  const browser = randomBytes(32).toString('base64url');
  const { authorizationUrl } = await gateway.logins.start(whose, undefined, browser);
  response.setHeader('set-cookie', createLoginCookie(base).set(browser));
  response.writeHead(303, { location: authorizationUrl, 'referrer-policy': 'no-referrer', 'content-length': 0 }).end();
}

/** Asks the person before the code is redeemed. A return without a code is an error, which `finishLogin` reports. */
async function askToFinish(gateway: Gateway, login: LoginRequest): Promise<void> {
  const { callback, browser } = readCallback(login);
  if (!new URL(callback).searchParams.has('code')) return finishLogin(gateway, login);
  const { userId, server, issuer } = await gateway.logins.preview(callback, browser);
  sendPage(login.response, 200, {
    title: `Finish the login to “${server}”`,
    paragraphs: [
      `You logged in at ${issuer}. Agents that work for “${userId}” will use “${server}” with that account.`,
      `Finish only if you are “${userId}” and started this login yourself. Otherwise close this page; nothing is stored.`,
    ],
    button: `Finish as “${userId}”`,
  });
}

async function finishLogin(gateway: Gateway, login: LoginRequest): Promise<void> {
  const { callback, browser } = readCallback(login);
  const { userId, server } = await gateway.logins.complete(callback, undefined, browser);
  sendPage(login.response, 200, {
    title: 'Done',
    paragraphs: [`“${userId}” is logged in to “${server}”. You can close this page.`],
  });
}

function readCallback({ base, request }: LoginRequest) {
  return {
    callback: `${base.href.replace(/\/$/, '')}${request.url}`,
    browser: createLoginCookie(base).read(request.headers.cookie),
  };
}

/**
 * Creates the cookie. Cookies are shared by all ports of a host, and sibling domains can set them. Over https, the
 * prefix `__Host-` excludes sibling domains and plain http. Other ports can still set one, so nothing is done on the
 * cookie alone.
 */
export function createLoginCookie(base: URL): LoginCookie {
  const isSecure = base.protocol === 'https:';
  const cookie = isSecure ? `__Host-${cookieName}` : cookieName;
  const path = isSecure ? '/' : `${base.pathname.replace(/\/$/, '')}/oauth/callback`;
  const secure = isSecure ? '; Secure' : '';
  return {
    set: (value) => `${cookie}=${value}; HttpOnly; SameSite=Lax; Max-Age=${cookieSeconds}; Path=${path}${secure}`,
    read(header = '') {
      const found = header
        .split(';')
        .map((pair) => pair.trim())
        .filter((pair) => pair.startsWith(`${cookie}=`))
        .map((pair) => pair.slice(cookie.length + 1));
      const [value = ''] = found;
      return found.length === 1 && /^[\w-]{43}$/.test(value) ? value : undefined;
    },
  };
}

/** Sends a page without scripts that no other page may embed. */
function sendPage(response: ServerResponse, status: number, page: LoginPage): void {
  const { title, paragraphs, button } = page;
  const text = paragraphs.map((each) => `<p>${escapeHtml(each)}</p>`).join('');
  const form = button === undefined ? '' : `<form method="post"><button>${escapeHtml(button)}</button></form>`;
  const style =
    'body{font:1.1em/1.5 system-ui;max-width:36em;margin:4em auto;padding:0 1em}button{font:inherit;padding:.4em 1em}';
  const html = `<!doctype html><html lang="en"><meta charset="utf-8"><title>${escapeHtml(title)}</title><style>${style}</style><h1>${escapeHtml(title)}</h1>${text}${form}</html>`;
  const bytes = Buffer.from(html);
  response
    .writeHead(status, {
      'content-type': 'text/html; charset=utf-8',
      'content-length': bytes.length,
      'content-security-policy': `default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'${formActionPolicy(page)}`,
      'x-frame-options': 'DENY',
      'x-content-type-options': 'nosniff',
      // The address contains the ticket. Our own page needs the referrer to prove where a form came from.
      'referrer-policy': 'same-origin',
    })
    .end(bytes);
}

/** The policy for forms. Browsers also apply it to redirects of the form. */
function formActionPolicy({ button, allowsRedirect = false }: LoginPage): string {
  if (allowsRedirect) return '';
  return button === undefined ? "; form-action 'none'" : "; form-action 'self'";
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
