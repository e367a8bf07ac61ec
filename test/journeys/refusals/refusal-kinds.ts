import type { SessionDraft } from '../../../src/index.ts';
import type { Restriction } from '../../../src/sessions/session.ts';
import { maxBody, shortTtl } from './start-refusing-gateway.ts';

export type Era = 'handshake' | 'modern';

/** The tool that is called: one of a server, or one of Ambit's own. */
export interface Target {
  readonly server: string | undefined;
  readonly tool: string;
}

/** The state of the session before the call that is refused. A result is kept of a call that was answered before. */
export type Before = 'answered before' | 'all calls used' | 'calls under way' | 'ended';

/** One kind of refusal, or several at once: the one that comes first in the pipeline answers. */
export interface Kind {
  readonly name: string;
  readonly targets: readonly Target[];
  /** The code that the caller is told; a number where the protocol itself has one. */
  readonly code: string | number;
  /** The HTTP status; 200 where none is given. */
  readonly status?: number;
  /** The rule that the caller is told, and that the journal names. */
  readonly rule?: string;
  /** A rule that only the journal names. */
  readonly untoldRule?: string;
  readonly args?: Record<string, unknown>;
  readonly meta?: Record<string, unknown>;
  readonly eras?: readonly Era[];
  readonly draft?: SessionDraft;
  /** Narrows the session after its client has opened a transport. */
  readonly narrow?: Restriction;
  readonly before?: readonly Before[];
  /** A client without a transport, at every address or only where no server can have opened one, or with a foreign one. */
  readonly transport?: 'none' | 'none of the server' | 'foreign';
  /** The session is no more, so the journal need not name it. Of those it does not name it has ten lines for each code. */
  readonly isOver?: true;
  /** A credential other than the token of the session: one that proves nobody, or one that proves a user. */
  readonly credential?: 'wrong token' | 'access token';
  /** The entrance refuses it before it is a call: this is the event in the journal. */
  readonly event?: 'credential' | 'length';
  /** The call reached a process, so the journal names it. */
  readonly hasPid?: true;
}

const of = (server: string, tool = 'echo'): Target => ({ server, tool });
const own = (tool: string): Target => ({ server: undefined, tool });
/** Rules about the session apply to the tools of servers and to Ambit's own alike. */
const either = [of('good'), own('session_info')];
const eitherDenied = [of('good', 'denied'), own('session_read_file')];

const notAvailable = { code: 'SERVER_NOT_AVAILABLE' };
const denied = { code: 'PERMISSION_DENIED', rule: 'no-denied' };
/** Sessions of project servers have no others, which would have to start for a list. */
const ofProject = { draft: { servers: ['turncoat', 'stranger', 'stranger-process'] } };
const notApproved = { code: 'SERVER_NOT_APPROVED', rule: 'approval', ...ofProject };
/** Rules were asked and had no objection: the journal says so, whatever happens later. */
const passed = { untoldRule: 'default' };
const failed = { code: 'UPSTREAM_FAILED', ...passed };
const expired = { code: 'SESSION_EXPIRED', draft: { ttlSeconds: shortTtl }, isOver: true } as const;
const ended = { code: 'SESSION_ENDED', before: ['ended'], isOver: true } as const;
const current = { session: 'current' };
const overQuota = { code: 'QUOTA_EXCEEDED', rule: 'quotas.session.totalCalls', before: ['all calls used'] } as const;
const unlisted = { ...notAvailable, untoldRule: 'session.servers', narrow: { servers: ['good'] } };
const walled = {
  ...notAvailable,
  untoldRule: 'workspaces.shed.capabilities.servers',
  draft: { workspaceId: 'shed' },
};
const keptResult = {
  targets: [of('good', 'write')],
  draft: { permissions: ['good:write'] },
  before: ['answered before'],
} as const;
const sandboxed: { readonly narrow: Restriction } = { narrow: { trustLevel: 'sandboxed' } };
const long = 'x'.repeat(70_000);

/** Refusals for one reason each. */
const single: readonly Kind[] = [
  { name: 'unknown server', targets: [of('nosuch')], ...notAvailable, transport: 'none of the server' },
  { name: 'server that has gone', targets: [of('gone')], ...notAvailable },
  { name: 'unknown own tool', targets: [own('session_nope')], code: 'REQUEST_INVALID', ...passed },
  { name: 'server not in the list of the session', targets: [of('unlisted')], ...unlisted },
  { name: 'server not in the list of the workspace', targets: [of('walled')], ...walled },
  {
    name: 'server that needs direct trust',
    targets: [of('direct')],
    ...notAvailable,
    untoldRule: 'servers.direct.trust',
    ...sandboxed,
  },
  { name: 'server that is not as approved', targets: [of('stranger'), of('stranger-process')], ...notApproved },
  // Nobody can have opened a transport to it.
  { name: 'server never approved', targets: [of('newcomer')], ...notApproved, draft: {}, eras: ['modern'] },
  { name: 'tool that is not as approved', targets: [of('turncoat', 'changing')], ...notApproved },
  { name: 'unknown tool of an approved server', targets: [of('turncoat', 'nosuch')], ...notApproved },
  { name: 'rule', targets: [of('good', 'denied')], ...denied },
  {
    name: 'rule for an own tool',
    targets: [own('session_read_file')],
    code: 'PERMISSION_DENIED',
    rule: 'no-own',
    draft: { workspaceId: 'shed' },
    args: { ...current, path: 'a' },
  },
  {
    name: 'tool that needs direct trust',
    targets: [of('good', 'direct')],
    code: 'PERMISSION_DENIED',
    rule: 'direct-only',
    ...sandboxed,
  },
  {
    name: 'rule that allows other arguments',
    targets: [of('good', 'small')],
    code: 'PERMISSION_DENIED',
    rule: 'small-only',
    args: { n: 10 },
  },
  {
    name: 'rule that cannot be judged',
    targets: [of('good', 'typed')],
    code: 'PERMISSION_DENIED',
    rule: 'unreadable',
    args: { n: 'x' },
  },
  {
    name: 'tool that the server denies',
    targets: [of('good', 'listed')],
    code: 'PERMISSION_DENIED',
    rule: 'servers.good.tools.deny',
  },
  {
    name: 'tool that the server does not allow',
    targets: [of('few', 'other')],
    code: 'PERMISSION_DENIED',
    rule: 'servers.few.tools.allow',
  },
  {
    name: 'tool with a replacement',
    targets: [of('good', 'replaced')],
    code: 'PERMISSION_DENIED',
    rule: 'servers.good.tools.instead',
  },
  {
    name: 'missing permission',
    targets: [of('good', 'write')],
    code: 'PERMISSION_DENIED',
    rule: 'servers.good.tools.permissions',
  },
  {
    name: 'missing scope',
    targets: [of('good', 'write')],
    code: 'INSUFFICIENT_SCOPE',
    status: 403,
    rule: 'servers.good.tools.permissions',
    credential: 'access token',
  },
  { name: 'quota', targets: either, ...overQuota, args: current },
  { name: 'expired session', targets: either, ...expired, args: current },
  { name: 'ended session', targets: either, ...ended, args: current },
  { name: 'no workspace', targets: [own('session_list_dir')], code: 'WORKSPACE_REQUIRED', ...passed, args: current },
  {
    name: 'arguments an own tool does not take',
    targets: [own('session_info')],
    code: 'REQUEST_INVALID',
    ...passed,
    args: { session: 7 },
  },
  { name: 'no sandbox', targets: [of('boxless')], code: 'SANDBOX_UNAVAILABLE', ...passed, ...sandboxed },
  { name: 'login required', targets: [of('guarded')], code: 'LOGIN_REQUIRED', ...passed },
  { name: 'server that exits at its start', targets: [of('stillborn')], ...failed },
  { name: 'server whose program is missing', targets: [of('missing')], ...failed },
  { name: 'process that dies during the call', targets: [of('crashing', 'crash')], ...failed, hasPid: true },
  { name: 'connection that breaks during the call', targets: [of('dying')], ...failed },
  { name: 'server over HTTP that is down', targets: [of('down')], ...failed },
  { name: 'answer too large', targets: [of('good', 'large')], code: 'UPSTREAM_TOO_LARGE', ...passed },
  {
    name: 'too many calls under way',
    targets: [of('good')],
    code: 'OVERLOADED',
    ...passed,
    before: ['calls under way'],
  },
  {
    name: 'message too large',
    targets: either,
    code: -32600,
    status: 413,
    event: 'length',
    args: { text: 'x'.repeat(maxBody) },
  },
  {
    name: 'params too large',
    targets: either,
    code: -32602,
    meta: { 'io.modelcontextprotocol/clientInfo': { name: long, version: '1' } },
  },
  { name: 'name too long', targets: [of('good', 'x'.repeat(1025)), own('x'.repeat(1025))], code: -32602 },
  {
    name: 'wrong token',
    targets: either,
    code: 'UNAUTHENTICATED',
    status: 401,
    event: 'credential',
    credential: 'wrong token',
  },
  { name: 'no transport', targets: either, code: -32000, status: 400, eras: ['handshake'], transport: 'none' },
  { name: 'foreign transport', targets: either, code: -32001, status: 404, eras: ['handshake'], transport: 'foreign' },
];

/** Refusals for several reasons. Session, quota, server, rule, approval, upstream: the first in this order answers. */
const combined: readonly Kind[] = [
  { name: 'expired session + rule', targets: [of('good', 'denied')], ...expired, eras: ['modern'] },
  { name: 'ended session + server that has gone', targets: [of('gone')], ...ended, eras: ['modern'] },
  { name: 'quota + server that has gone', targets: [of('gone')], ...overQuota },
  { name: 'quota + server not permitted', targets: [of('unlisted')], ...overQuota },
  { name: 'server not permitted + rule', targets: [of('unlisted', 'denied')], ...unlisted },
  { name: 'server not permitted + not approved', targets: [of('stranger')], ...unlisted },
  { name: 'server not permitted + down', targets: [of('down')], ...unlisted },
  { name: 'quota + rule', targets: eitherDenied, ...overQuota },
  { name: 'quota + missing permission', targets: [of('good', 'write')], ...overQuota },
  { name: 'quota + server not approved', targets: [of('stranger')], ...overQuota },
  { name: 'quota + tool not approved', targets: [of('turncoat', 'changing')], ...overQuota },
  { name: 'quota + server that exits at its start', targets: [of('stillborn')], ...overQuota },
  { name: 'rule + tool not approved', targets: [of('turncoat', 'denied-changing')], ...denied, ...ofProject },
  {
    name: 'rule + unknown tool of an approved server',
    targets: [of('turncoat', 'denied-nosuch')],
    ...denied,
    ...ofProject,
  },
  {
    name: 'rule + server not approved',
    targets: [of('stranger', 'denied'), of('stranger-process', 'denied')],
    ...denied,
    ...ofProject,
  },
  { name: 'rule + server that exits at its start', targets: [of('stillborn', 'denied')], ...denied },
  { name: 'rule + server that is down', targets: [of('down', 'denied')], ...denied },
  { name: 'rule + login required', targets: [of('guarded', 'denied')], ...denied },
  { name: 'rule + no sandbox', targets: [of('boxless', 'denied')], ...denied, ...sandboxed },
  { name: 'rule + too many calls under way', targets: [of('good', 'denied')], ...denied, before: ['calls under way'] },
  {
    name: 'rule + no workspace',
    targets: [own('session_read_file')],
    code: 'PERMISSION_DENIED',
    rule: 'no-own',
  },
  {
    name: 'missing permission + kept result',
    ...keptResult,
    code: 'PERMISSION_DENIED',
    rule: 'servers.good.tools.permissions',
    narrow: { permissions: [] },
  },
  {
    name: 'server not permitted + kept result',
    ...keptResult,
    ...notAvailable,
    untoldRule: 'session.servers',
    narrow: { servers: [] },
  },
  { name: 'quota + kept result', ...keptResult, ...overQuota, before: ['answered before', 'all calls used'] },
  { name: 'unknown tool + server not approved', targets: [of('stranger', 'nosuch')], ...notApproved },
];

export const kinds: readonly Kind[] = [...single, ...combined];
