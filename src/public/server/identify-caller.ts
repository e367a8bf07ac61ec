import { createHash } from 'node:crypto';
import { workspaceSlug } from '../../config/schema/schema-parts.ts';
import { AmbitError, isAmbitError } from '../../errors.ts';
import { anonymousUser, type Principal, type UserPrincipal } from '../../identity/principal.ts';
import { withTimeout } from '../../lib/async/timeout.ts';
import type { Log } from '../../observability/log/log.ts';
import { checkDraft, checkTrust } from '../../sessions/check-fields.ts';
import { type CallHeaders, isObject } from '../sdk/call.ts';
import { hookMs } from './safe-hooks.ts';
import { type AuthInfo, type CallerPrincipal, maxMetadataBytes, type ServerSessionsOptions } from './settings.ts';

type KnownCaller =
  | { readonly principal: UserPrincipal; readonly workspaceId: string | undefined }
  | { readonly principal: Extract<Principal, { kind: 'anonymous' }>; readonly workspaceId: undefined }
  | { readonly sessionToken: string };

/**
 * The caller of a request over HTTP: a user, an unknown person, or the holder of a session token. `credential` tells the
 * credentials of one user apart.
 */
export type HttpCaller = KnownCaller & { readonly credential: string };

/** The parts of a request that identify its caller. */
export interface CredentialSource {
  readonly extra: Readonly<Record<string, unknown>>;
  readonly headers: CallHeaders | undefined;
}

export type IdentifyCaller = (source: CredentialSource) => Promise<HttpCaller>;

type IdentityOptions = Pick<ServerSessionsOptions, 'principal' | 'identify' | 'unknownCallers'>;

/** A revoked key works for at most this long. */
const keyMs = 10_000;
const maxKeys = 10_000;
const warnEveryMs = 60_000;

/** Creates the function that finds the caller of a request over HTTP, as the author of the server says. */
export function createIdentifyCaller(options: IdentityOptions, log: Log): IdentifyCaller {
  const { principal, identify, unknownCallers = 'refuse' } = options;
  const askByKey = identify && rememberKeys(identify);
  const warnRarely = createRareWarning();

  /** Returns the caller and the credential. An access token changes often, so its client stands for it. */
  async function askAuthor({ extra, headers }: CredentialSource): Promise<[CallerPrincipal | undefined, string]> {
    const http = isObject(extra['http']) ? extra['http'] : extra;
    const auth = http['authInfo'] as AuthInfo | undefined;
    try {
      if (principal !== undefined && (auth !== undefined || askByKey === undefined))
        return [(await withTimeout((async () => principal(auth))(), hookMs)) || undefined, auth?.clientId ?? ''];
      const key = auth?.token ?? readBearer(headers);
      if (key === undefined) return [undefined, ''];
      return [(await withTimeout((async () => askByKey?.(key))(), hookMs)) || undefined, key];
    } catch (cause) {
      warnRarely('failed', () => log.warn('caller cannot be identified', { error: String(cause) }));
      throw new AmbitError('UNAUTHENTICATED', { hint: credentialHint, cause });
    }
  }

  return async (source) => {
    if (principal === undefined && identify === undefined && unknownCallers === 'refuse') {
      throw new AmbitError('UNAUTHENTICATED', {
        what: 'This server cannot identify the caller.',
        hint: 'The author of the server must set the option "principal" or "identify" of createServerSessions(), or run the server behind Ambit.',
      });
    }
    const [caller, credential] = await askAuthor(source);
    if (caller !== undefined) {
      const report = (error: string) => warnRarely('invalid', () => log.warn('caller is not valid', { error }));
      return { ...readCaller(caller, report), credential };
    }
    if (unknownCallers !== 'anonymous') throw new AmbitError('UNAUTHENTICATED', { hint: credentialHint });
    warnRarely('anonymous', () => log.warn('call of an anonymous caller', { user: anonymousUser }));
    return { principal: { kind: 'anonymous', userId: anonymousUser }, workspaceId: undefined, credential };
  };
}

const credentialHint = 'Send a credential that this server accepts.';

/** Checks what the author's function returned, as the gateway checks what it is told. */
function readCaller(caller: CallerPrincipal, report: (error: string) => void): KnownCaller {
  try {
    if (isObject(caller) && 'sessionToken' in caller) return { sessionToken: String(caller.sessionToken) };
    if (!isObject(caller) || typeof caller.userId !== 'string') {
      report('it has no "userId"');
      throw new AmbitError('UNAUTHENTICATED');
    }
    if (caller.userId === anonymousUser) {
      throw new AmbitError('REQUEST_INVALID', { what: `The user "${anonymousUser}" stands for unknown callers.` });
    }
    return readUser(caller);
  } catch (error) {
    if (!isAmbitError(error)) throw error;
    if (error.code === 'UNAUTHENTICATED') throw new AmbitError('UNAUTHENTICATED', { hint: credentialHint });
    report(error.message);
    throw new AmbitError('CONFIG_INVALID', {
      what: 'This server describes its caller in a way that is not valid.',
      hint: 'The author of the server finds the reason in the log of the server.',
      cause: error,
    });
  }
}

function readUser(caller: Extract<CallerPrincipal, { userId: string }>): KnownCaller {
  const { userId, agentId, workspaceId, workspaces, trustLevel = 'sandboxed' } = caller;
  const draft = { userId, permissions: caller.permissions ?? [], ...(agentId === undefined ? {} : { agentId }) };
  const { permissions } = checkDraft(draft, { maxLifetimeSeconds: 1, metadataBytes: maxMetadataBytes });
  if (workspaces !== undefined && (!Array.isArray(workspaces) || workspaces.length === 0)) {
    throw new AmbitError('REQUEST_INVALID', { what: 'The workspaces of a caller are a list of at least one slug.' });
  }
  const allowed = workspaces ?? (workspaceId === undefined ? null : [workspaceId]);
  for (const slug of [...(allowed ?? []), ...(workspaceId === undefined ? [] : [workspaceId])]) {
    if (typeof slug === 'string' && workspaceSlug.test(slug)) continue;
    throw new AmbitError('REQUEST_INVALID', { what: `"${String(slug).slice(0, 63)}" is not the slug of a workspace.` });
  }
  if (workspaceId !== undefined && allowed?.includes(workspaceId) === false) {
    throw new AmbitError('REQUEST_INVALID', { what: 'The workspace of the caller is not among its workspaces.' });
  }
  const ceiling = {
    trustLevel: checkTrust(trustLevel),
    workspaces: allowed,
    scopes: permissions,
    ...(agentId === undefined ? {} : { agentId }),
  };
  return { principal: { kind: 'user', userId, via: 'key', ceiling }, workspaceId };
}

/** Asks for each key once in ten seconds. Keys are remembered by their digest. */
function rememberKeys(identify: NonNullable<IdentityOptions['identify']>): typeof identify {
  const known = new Map<string, { readonly caller: Promise<CallerPrincipal | undefined>; readonly until: number }>();
  return (key) => {
    const digest = createHash('sha256').update(key).digest('base64');
    const found = known.get(digest);
    if (found !== undefined && performance.now() < found.until) return found.caller;
    known.delete(digest);
    if (known.size >= maxKeys) known.delete(known.keys().next().value as string);
    const entry = { caller: (async () => identify(key))(), until: performance.now() + keyMs };
    known.set(digest, entry);
    // Only callers that are known are remembered.
    const forget = () => void (known.get(digest) === entry && known.delete(digest));
    entry.caller.then((caller) => !caller && forget(), forget);
    return entry.caller;
  };
}

type RareWarning = (topic: string, warn: () => void) => void;

/** Warns about each topic at most once a minute. */
function createRareWarning(): RareWarning {
  const warnedAt = new Map<string, number>();
  return (topic, warn) => {
    const now = performance.now();
    if (now - (warnedAt.get(topic) ?? Number.NEGATIVE_INFINITY) < warnEveryMs) return;
    warnedAt.set(topic, now);
    warn();
  };
}

/** Reads the token of "Authorization: Bearer". */
export function readBearer(headers: CallHeaders | undefined): string | undefined {
  if (headers === undefined) return undefined;
  const value =
    typeof headers['get'] === 'function'
      ? (headers as { get(name: string): string | null }).get('authorization')
      : (headers as Readonly<Record<string, string | readonly string[] | undefined>>)['authorization'];
  return typeof value === 'string' ? /^Bearer +(\S+) *$/i.exec(value)?.[1] : undefined;
}
