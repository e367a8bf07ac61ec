import { randomUUID, sign } from 'node:crypto';
import type { ActingSession } from '../../rules/session-base.ts';
import type { ContextKey } from './context-key.ts';
import type { Pseudonyms } from './pseudonyms.ts';
import type { SigningKeys } from './signing-keys.ts';

/** The amount of session data that a server gets. */
export type Disclosure = 'full' | 'pseudonymous' | 'none';

/** The request that a context is bound to. */
export interface BoundRequest {
  readonly method: string;
  /** The tool, prompt or resource; empty when the method has none. */
  readonly name: string;
  /** Undefined where the arguments cannot be hashed. */
  readonly argsSha256: string | undefined;
}

export interface CallContext {
  /** The member of `_meta`, as JSON text in two parts. Many calls in a row have the same first part. */
  readonly memberStart: string;
  readonly memberEnd: string;
  /** The token of that member, for the header of a request over HTTP. */
  readonly token: string;
}

/** Writes the context of calls to one server. */
export interface ContextWriter {
  /** Writes a context. It is signed with the key of a process, or without one with the key of the gateway. */
  write(
    session: ActingSession,
    correlationId: string,
    request: BoundRequest,
    key?: ContextKey | undefined,
  ): CallContext;
}

interface ContextWritersOptions {
  readonly keys: SigningKeys;
  readonly pseudonyms: Pseudonyms;
  /** The name of this gateway for verifiers. */
  readonly issuer: string;
  /** The name of this process of the gateway. */
  readonly workload: string;
  /** Finds the folder of the workspace as this session sees it. */
  readonly pathOf: (session: ActingSession) => string | undefined;
  readonly now?: () => number;
}

const contextKey = 'ambit/context';
const lifeSeconds = 60;
const maxStartLength = 16_384;

/** The part of a context that stays the same for all calls of a session to a server, as JSON text. */
interface PreparedContext {
  readonly subject: string;
  readonly facts: string;
  readonly plain: string;
  /** The start of the latest context. Most calls of a busy session have the same one. */
  start: ContextStart | undefined;
}

/** The part that stays the same for all calls of one second with the same method and name. */
interface ContextStart {
  readonly second: number;
  readonly method: string;
  readonly name: string;
  readonly header: string;
  /** The start of the token: the header and the first claims. */
  readonly token: string;
  /** The start of the member of `_meta`, up to the same claim. */
  readonly member: string;
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

  /** The key of the gateway as it is now. */
  function publicKey(): Pick<ContextKey, 'header' | 'sign'> {
    const { kid, key } = keys.current();
    return {
      header: encodeHeader(kid),
      sign: (start, rest) =>
        sign(null, Buffer.from(rest === undefined ? start : start + rest, 'latin1'), key).toString('base64url'),
    };
  }

  /** Formats the time. Tokens count in seconds, so calls of the same second share it. */
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
      start: undefined,
    };
  }

  function createStart(
    prepared: PreparedContext,
    audience: string,
    method: string,
    name: string,
    header: string,
  ): ContextStart {
    const { second, issued, expires } = stampNow();
    const scope = JSON.stringify(method === 'tools/call' ? `tool:${name}` : method);
    const bound = `"method":${JSON.stringify(method)},${name === '' ? '' : `"name":${JSON.stringify(name)},`}`;
    const claims = `{"iss":${issuer},"aud":${audience},"iat":${second},"exp":${second + lifeSeconds},"req_wl":${workload},${prepared.subject},"scope":${scope},"tctx":{${prepared.facts},${bound}`;
    const token = `${header}.${encodeBase64Url(padToTriple(claims))}`;
    const member = `"${contextKey}":{${prepared.plain},"issuedAt":"${issued}","expiresAt":"${expires}","token":"${token}`;
    return { second, method, name, header, token: joinText(token), member: joinText(member) };
  }

  return {
    /** Creates a writer for one server. `audience` is its address, or its name for one on stdio. */
    for(audience: string, disclosure: Exclude<Disclosure, 'none'>): ContextWriter {
      const known = new WeakMap<ActingSession, PreparedContext>();
      const aud = JSON.stringify(audience);
      return {
        write(session, correlationId, { method, name, argsSha256 }, processKey) {
          let prepared = known.get(session);
          if (prepared === undefined) {
            prepared = prepareContext(session, audience, disclosure);
            known.set(session, prepared);
          }
          const key = processKey ?? publicKey();
          let { start } = prepared;
          if (
            start === undefined ||
            start.second !== stampNow().second ||
            start.header !== key.header ||
            start.name !== name ||
            start.method !== method
          ) {
            start = createStart(prepared, aud, method, name, key.header);
            // A client chooses the name, so a long one is not kept.
            prepared.start = start.member.length + start.token.length <= maxStartLength ? start : undefined;
          }
          // One id at several servers would let them combine what they know.
          const call = disclosure === 'full' ? correlationId : pseudonyms.of('call', audience, correlationId);
          const digest = argsSha256 === undefined ? '"argsRaw":true' : `"argsSha256":"${argsSha256}"`;
          const claims = `"correlationId":"${call}",${digest}},"txn":"${call}","jti":"${randomUUID()}"}`;
          const rest = encodeBase64Url(claims);
          const end = `${rest}.${key.sign(start.token, rest)}`;
          const memberEnd = `${end}","correlationId":"${call}"}`;
          return { memberStart: start.member, memberEnd, token: start.token + end };
        },
      };
    },
  };
}

export type ContextWriters = ReturnType<typeof createContextWriters>;

/** Reused for each token: a new buffer costs more than the encoding. */
const encoded = Buffer.allocUnsafe(16_384);

function encodeBase64Url(text: string): string {
  // One UTF-16 code unit becomes at most three bytes.
  if (text.length * 3 > encoded.length) return Buffer.from(text).toString('base64url');
  return encoded.toString('base64url', 0, encoded.write(text, 0));
}

/** Adds spaces, so that base64 encodes the text without regard to what follows it. JSON allows them between members. */
function padToTriple(text: string): string {
  return text + '  '.slice((Buffer.byteLength(text) + 2) % 3);
}

/** Copies a text that was put together from parts. Its users are faster if it is in one piece. */
function joinText(text: string): string {
  return Buffer.from(text).toString();
}

function toIsoTime(second: number): string {
  return new Date(second * 1000).toISOString();
}

/** Writes the members of an object without the braces. */
function writeMembers(object: object): string {
  return JSON.stringify(object).slice(1, -1);
}
