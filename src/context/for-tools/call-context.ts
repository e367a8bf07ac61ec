import { randomUUID, sign } from 'node:crypto';
import type { ActingSession } from '../../rules/session-base.ts';
import type { Pseudonyms } from './pseudonyms.ts';
import type { SigningKeys } from './signing-keys.ts';

/** How much of a session a server is told. */
export type Disclosure = 'full' | 'pseudonymous' | 'none';

/** The request that a context is bound to. */
export interface BoundRequest {
  readonly method: string;
  /** The tool, prompt or resource; empty where the method names none. */
  readonly name: string;
  /** Undefined where the arguments cannot be hashed. */
  readonly argsSha256: string | undefined;
}

export interface CallContext {
  /** The member of `_meta`, as JSON text. */
  readonly member: string;
  /** The same token that stands in it, for the header of a request over HTTP. */
  readonly token: string;
}

/** Tells one server about the calls that reach it. */
export interface ContextWriter {
  write(session: ActingSession, correlationId: string, request: BoundRequest): CallContext;
}

export interface ContextWritersOptions {
  readonly keys: SigningKeys;
  readonly pseudonyms: Pseudonyms;
  /** This gateway, as verifiers know it. */
  readonly issuer: string;
  /** This very process of it. */
  readonly workload: string;
  /** The folder of the workspace, as this session has it. */
  readonly pathOf: (session: ActingSession) => string | undefined;
  readonly now?: () => number;
}

const contextKey = 'ambit/context';
const lifeSeconds = 60;

/** What stays the same from call to call of a session at a server, as JSON text. */
interface PreparedContext {
  readonly subject: string;
  readonly facts: string;
  readonly plain: string;
}

export function createContextWriters(options: ContextWritersOptions) {
  const { keys, pseudonyms } = options;
  const now = options.now ?? Date.now;
  const issuer = JSON.stringify(options.issuer);
  const workload = JSON.stringify(options.workload);
  let head = { kid: '', text: '' };
  let stamp = { second: 0, issued: '', expires: '' };

  function encodeHeader(kid: string): string {
    if (head.kid !== kid)
      head = { kid, text: encodeBase64Url(JSON.stringify({ alg: 'EdDSA', typ: 'txntoken+jwt', kid })) };
    return head.text;
  }

  /** Tokens count in seconds, so calls of one second share how they are written. */
  function stampNow(): typeof stamp {
    const second = Math.floor(now() / 1000);
    if (second !== stamp.second)
      stamp = { second, issued: toIsoTime(second), expires: toIsoTime(second + lifeSeconds) };
    return stamp;
  }

  function prepareContext(session: ActingSession, audience: string, disclosure: Disclosure): PreparedContext {
    const hidden = disclosure !== 'full';
    const { workspaceId, agentId } = session;
    const userId = hidden ? pseudonyms.of('user', audience, session.userId) : session.userId;
    const agent = agentId !== undefined && hidden ? pseudonyms.of('agent', audience, agentId) : agentId;
    const workspace =
      workspaceId !== undefined && hidden ? pseudonyms.of('workspace', audience, workspaceId) : workspaceId;
    const facts = {
      sessionId: hidden ? pseudonyms.of('session', audience, session.id) : session.id,
      workspaceId: workspace ?? null,
      trustLevel: session.trustLevel,
      permissions: hidden ? [] : session.permissions,
    };
    const path = hidden || workspaceId === undefined ? undefined : options.pathOf(session);
    const plain = { ...facts, userId, agentId: agent ?? null, workspacePath: path ?? null };
    return {
      subject: `"sub":${JSON.stringify(userId)}${agent === undefined ? '' : `,"act":{"sub":${JSON.stringify(agent)}}`}`,
      facts: writeMembers(facts),
      plain: writeMembers(plain),
    };
  }

  return {
    /** `audience` is the server's address, or its name for one on stdio. */
    for(audience: string, disclosure: Exclude<Disclosure, 'none'>): ContextWriter {
      const known = new WeakMap<ActingSession, PreparedContext>();
      const aud = JSON.stringify(audience);
      return {
        write(session, correlationId, { method, name, argsSha256 }) {
          let prepared = known.get(session);
          if (prepared === undefined) {
            prepared = prepareContext(session, audience, disclosure);
            known.set(session, prepared);
          }
          // One id on its way through several servers would join what they know of it.
          const call = disclosure === 'full' ? correlationId : pseudonyms.of('call', audience, correlationId);
          const { second, issued, expires } = stampNow();
          const scope = JSON.stringify(method === 'tools/call' ? `tool:${name}` : method);
          const bound =
            (name === '' ? '' : `,"name":${JSON.stringify(name)}`) +
            (argsSha256 === undefined ? ',"argsRaw":true' : `,"argsSha256":"${argsSha256}"`);
          const claims = `{"iss":${issuer},"aud":${aud},"iat":${second},"exp":${second + lifeSeconds},"txn":"${call}","jti":"${randomUUID()}","req_wl":${workload},${prepared.subject},"scope":${scope},"tctx":{${prepared.facts},"correlationId":"${call}","method":${JSON.stringify(method)}${bound}}}`;
          const { kid, key } = keys.current();
          const signed = `${encodeHeader(kid)}.${encodeBase64Url(claims)}`;
          const token = `${signed}.${sign(null, Buffer.from(signed, 'latin1'), key).toString('base64url')}`;
          const member = `"${contextKey}":{${prepared.plain},"correlationId":"${call}","issuedAt":"${issued}","expiresAt":"${expires}","token":"${token}"}`;
          return { member, token };
        },
      };
    },
  };
}

export type ContextWriters = ReturnType<typeof createContextWriters>;

function encodeBase64Url(text: string): string {
  return Buffer.from(text).toString('base64url');
}

function toIsoTime(second: number): string {
  return new Date(second * 1000).toISOString();
}

/** The members of an object, without its braces. */
function writeMembers(object: object): string {
  return JSON.stringify(object).slice(1, -1);
}
