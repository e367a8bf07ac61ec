import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { AmbitError } from '../../../errors.ts';
import type { Operator } from '../../../gateway/gateway.ts';
import type { ConsoleGrant, ConsoleRecord, Consoles, MintedConsole } from '../../../identity/consoles.ts';
import { manifest } from '../../../package-paths.ts';
import { namesLoopback } from '../../http/guards.ts';
import { type ControlCaller, defineRoute, type RouteRequest } from '../route.ts';

/** The name of the commands, which use the control socket. */
export const localName = 'control-socket';
export const consolesPath = '/api/v1/consoles';

const consoleParameter = 'ID of the console, or `current` for the console whose token is sent.';

const newLink = z.strictObject({
  role: z
    .enum(['admin', 'viewer'])
    .default('admin')
    .describe('Role of the console. A viewer may read; an admin may do everything.'),
});

export const newConsole = z.strictObject({
  code: z
    .string()
    .max(256)
    .optional()
    .describe('One-time code of a link. With a code, send no credential; without a code, send one.'),
});

/** The sign-ins of the web console. */
export const consoleRoutes = {
  'GET /api/v1/whoami': defineRoute({
    role: 'viewer',
    summary: 'Shows the role of the credential that is sent',
    returns: 'The role and the credential',
    answer: 'whoami',
    handle: (_gateway, { caller }) => ({
      role: caller.role,
      by: nameCaller(caller),
      consoleId: caller.consoleId ?? null,
      expiresAt: caller.until === undefined ? null : new Date(caller.until).toISOString(),
      version,
    }),
  }),
  'GET /api/v1/consoles': defineRoute({
    role: 'admin',
    summary: 'Lists the signed-in consoles',
    returns: 'The consoles, without their tokens',
    answer: 'consoles',
    handle: (gateway, { caller }) => ({
      consoles: requireConsoles(gateway)
        .list()
        .map((each) => ({ ...showConsole(each), isCurrent: each.id === caller.consoleId })),
    }),
  }),
  'POST /api/v1/consoles': defineRoute({
    role: 'viewer',
    isOpen: true,
    summary: 'Signs a console in. Only this response contains the token',
    description:
      'Send either the code of a link and no credential, or a credential and `{}`. The admin token opens a console with the role `admin`, an access token one with its own role. The token of a console opens no other console. A console ends after 8 hours, at the latest with the access token that opened it, and when the gateway ends.',
    body: newConsole,
    status: 201,
    returns: 'The console and its token',
    answer: 'openedConsole',
    handle: openConsole,
  }),
  'POST /api/v1/consoles/links': defineRoute({
    role: 'admin',
    summary: 'Creates a link that opens the console and signs in',
    description:
      'The link contains a code that works once, for 60 seconds. If a console made the link, the new console ends with that console.',
    body: newLink,
    status: 201,
    returns: 'The link',
    answer: 'consoleLink',
    handle: createLink,
  }),
  'DELETE /api/v1/consoles/{id}': defineRoute({
    role: 'viewer',
    summary: 'Signs a console out, and the consoles that it made',
    description: 'A viewer may sign out only the console whose token is sent.',
    parameter: consoleParameter,
    returns: 'The console that was signed out',
    answer: 'revokedConsole',
    handle: revokeConsole,
  }),
};

const { version } = JSON.parse(readFileSync(manifest, 'utf8')) as { readonly version: string };

/** Exchanges the code of a request without a credential. */
export function redeemCode(gateway: Operator, code: string | undefined, from: string | undefined) {
  const opened = code === undefined ? undefined : requireConsoles(gateway).redeemCode(code, from);
  if (opened !== undefined) return showOpened(opened);
  throw new AmbitError('UNAUTHENTICATED', {
    what: 'The sign-in code is not valid. A code works once, for 60 seconds.',
    hint: 'Run "ambit open" on the gateway for a new one.',
  });
}

function openConsole(gateway: Operator, { caller, body }: RouteRequest<{ body: typeof newConsole }>) {
  if (body.code !== undefined) {
    throw new AmbitError('REQUEST_INVALID', {
      what: 'The request has a code and a credential.',
      hint: 'Send the code without a credential.',
    });
  }
  if (caller.consoleId !== undefined) {
    throw new AmbitError('PERMISSION_DENIED', {
      what: 'The token of a console opens no other console.',
      hint: 'Run "ambit open" on the gateway for another console.',
    });
  }
  return showOpened(requireConsoles(gateway).open(createGrant(caller, caller.role), caller.from));
}

function createLink(gateway: Operator, { caller, body, address }: RouteRequest<{ body: typeof newLink }>) {
  const consoles = requireConsoles(gateway);
  if (address === undefined) {
    throw new AmbitError('GATEWAY_UNREACHABLE', {
      what: 'This gateway does not listen on a port, so no browser can reach it.',
      hint: 'Start one that does with "ambit serve".',
    });
  }
  const link = createConsoleLink(consoles, address, createGrant(caller, body.role));
  const { port, hash } = new URL(link.url);
  // The name leads to this machine, so not to the proxy of a public address.
  const isLocal = gateway.config.listen.publicUrl === undefined && namesLoopback(new URL(address).host);
  return { ...link, browserUrl: isLocal ? `http://${consoles.hostName}:${port}/${hash}` : null };
}

/** Creates a link to the console with a new one-time code. The code is in the fragment, which no browser sends. */
export function createConsoleLink(consoles: Consoles, address: string, grant: ConsoleGrant) {
  const { id, code, expiresAt } = consoles.createCode(grant);
  const url = `${findBrowserAddress(address)}/#code=${code}`;
  return { url, consoleId: id, role: grant.role, expiresAt: new Date(expiresAt).toISOString() };
}

function revokeConsole(gateway: Operator, { caller, parameter }: RouteRequest) {
  const id = parameter === 'current' ? caller.consoleId : parameter;
  if (caller.role !== 'admin' && id !== caller.consoleId) {
    throw new AmbitError('PERMISSION_DENIED', {
      what: 'The role "viewer" may sign out only its own console.',
      hint: 'Sign out with the id "current".',
    });
  }
  const revoked = id === undefined ? undefined : requireConsoles(gateway).revoke(id, nameCaller(caller));
  if (revoked === undefined) throw new AmbitError('CONSOLE_NOT_FOUND');
  return { id: revoked.id, revoked: true as const };
}

/** Grants a role that ends with the credential of the caller. */
function createGrant(caller: ControlCaller, role: ConsoleGrant['role']): ConsoleGrant {
  return { role, by: nameCaller(caller), parentId: caller.consoleId, until: caller.until };
}

function nameCaller({ by }: ControlCaller): string {
  return by ?? localName;
}

function requireConsoles({ running }: Operator): Consoles {
  if (running !== undefined) return running.consoles;
  throw new AmbitError('GATEWAY_UNREACHABLE', {
    what: 'No gateway is running, and sign-ins are in the memory of a running gateway.',
  });
}

/** A browser cannot open the address that stands for all addresses of a machine. */
function findBrowserAddress(address: string): string {
  return address.replace(/\/$/, '').replace('//0.0.0.0:', '//127.0.0.1:').replace('//[::]:', '//[::1]:');
}

function showOpened({ token, ...opened }: MintedConsole) {
  const { id, role, by, expiresAt } = opened;
  return { id, token, role, by, expiresAt: new Date(expiresAt).toISOString() };
}

function showConsole({ createdAt, expiresAt, lastUsedAt, address, ...rest }: ConsoleRecord) {
  const [created, expires, used] = [createdAt, expiresAt, lastUsedAt].map((at) => new Date(at).toISOString());
  return {
    ...rest,
    createdAt: created as string,
    expiresAt: expires as string,
    lastUsedAt: used as string,
    address: address ?? null,
  };
}
