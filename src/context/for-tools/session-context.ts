import { AmbitError } from '../../errors.ts';
import type { ActingSession, Optional, SessionBase } from '../../rules/session-base.ts';
import { normalizeTrust, type TrustLevel } from '../../rules/trust-level.ts';
import type { PseudonymKind, Pseudonyms } from './pseudonyms.ts';

export interface ContextWorkspace {
  readonly id: string;
  /** The path as the process sees it; undefined when the files are not in a folder. */
  readonly path: string | undefined;
}

/**
 * The context that a tool gets about its session. An absent field is omitted; an empty string means that there is none.
 * A context with a session always has a workspace.
 */
export interface ToolContext extends Optional<Pick<SessionBase, 'userId' | 'agentId' | 'workspaceId'>> {
  readonly sessionId?: string | undefined;
  /** Any known spelling; others are refused. */
  readonly trustLevel?: TrustLevel | (string & {}) | undefined;
  /** The path as the process sees it. */
  readonly workspacePath?: string | null | undefined;
  /** The public keys, as the text of a JWK Set. */
  readonly jwks?: string | undefined;
}

export type ContextField = keyof ToolContext;

/** The name of each field in an environment, after the prefix. */
export const contextNames = {
  sessionId: 'SESSION_ID',
  workspaceId: 'WORKSPACE_ID',
  trustLevel: 'TRUST_LEVEL',
  userId: 'USER_ID',
  agentId: 'AGENT_ID',
  workspacePath: 'WORKSPACE_PATH',
  jwks: 'JWKS',
} as const satisfies Record<ContextField, string>;

/** The end of the variable that names the key file of a process. Its value is known only when the process starts. */
const contextKeySuffix = 'CONTEXT_KEY_FILE';

const suffixes: readonly string[] = [...Object.values(contextNames), contextKeySuffix];
const prefixShape = /^[A-Z](?:[A-Z0-9_]{0,30}[A-Z0-9])?$/;

const shapes: Readonly<Record<Exclude<ContextField, 'trustLevel'>, RegExp>> = {
  sessionId: /^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$/,
  workspaceId: /^(?:[a-z0-9][a-z0-9\-_.]{0,62})?$/,
  userId: /^[^\u0000-\u001f\u007f]{1,256}$/,
  agentId: /^[^\u0000-\u001f\u007f]{0,256}$/,
  workspacePath: /^[^\u0000\n\r]{0,4096}$/,
  jwks: /^[^\u0000\n\r]{0,65536}$/,
};

/** Reads the values by field. Throws for values that cannot have come from Ambit. */
export function readValues(context: ToolContext): ReadonlyMap<ContextField, string> {
  const values = new Map<ContextField, string>();
  for (const field of Object.keys(contextNames) as ContextField[]) {
    const value = field === 'workspaceId' ? findWorkspace(context) : context[field];
    if (value === undefined) continue;
    const text = value === null ? '' : value;
    const checked = field === 'trustLevel' ? normalizeTrust(text) : shapes[field].test(text) ? text : undefined;
    if (checked === undefined || typeof text !== 'string') {
      throw new AmbitError('REQUEST_INVALID', { what: `The ${field} of the context is not valid.` });
    }
    values.set(field, checked);
  }
  return values;
}

function findWorkspace({ sessionId, workspaceId }: ToolContext): string | null | undefined {
  return workspaceId === undefined && sessionId !== undefined ? '' : workspaceId;
}

/** Lists the variables that name the key file of a process, one for each prefix. */
export function listKeyFileNames(prefixes: readonly string[]): string[] {
  return prefixes.map((prefix) => `${prefix}_${contextKeySuffix}`);
}

export function assertPrefixes(prefixes: readonly string[]): readonly string[] {
  if (prefixes.length > 0 && prefixes.every((prefix) => prefixShape.test(prefix))) return prefixes;
  throw new AmbitError('CONFIG_INVALID', {
    what: 'At least one prefix is needed. A prefix has up to 32 characters of A-Z, 0-9 and "_", and starts with a letter.',
    hint: 'Use a prefix such as AMBIT.',
  });
}

/** Tells whether a name, in upper or lower case, is one of the context variables. */
export function isContextName(name: string, prefixes: readonly string[]): boolean {
  const upper = name.toUpperCase();
  return ['AMBIT', ...prefixes].some(
    (prefix) => upper.startsWith(`${prefix}_`) && suffixes.includes(upper.slice(prefix.length + 1)),
  );
}

/** Creates the context of a process that serves one session in one workspace. */
export function createSessionContext(
  session: Pick<ActingSession, 'id' | 'userId' | 'agentId' | 'trustLevel'>,
  workspace: ContextWorkspace | undefined,
  jwks?: string | undefined,
): ToolContext {
  return {
    sessionId: session.id,
    workspaceId: workspace?.id ?? '',
    trustLevel: session.trustLevel,
    userId: session.userId,
    agentId: session.agentId ?? '',
    workspacePath: workspace?.path ?? '',
    jwks,
  };
}

/** Replaces all names with pseudonyms and removes the path. */
export function pseudonymizeContext(context: ToolContext, audience: string, pseudonyms: Pseudonyms): ToolContext {
  const pseudonymize = (kind: PseudonymKind, value: string | null | undefined) =>
    value === undefined || value === null || value === '' ? value : pseudonyms.of(kind, audience, value);
  return {
    ...context,
    sessionId: pseudonymize('session', context.sessionId) ?? undefined,
    userId: pseudonymize('user', context.userId) ?? undefined,
    agentId: pseudonymize('agent', context.agentId),
    workspaceId: pseudonymize('workspace', context.workspaceId),
    workspacePath: undefined,
  };
}

/** Reduces a context to what is true for every call of a process of this scope. The rest comes with each call. */
export function contextForScope(
  scope: 'call' | 'session' | 'user' | 'workspace' | 'shared',
  context: ToolContext,
): ToolContext {
  if (scope === 'shared') return { jwks: context.jwks };
  // The agent belongs to the session.
  const { sessionId: _session, agentId: _agent, ...ofUser } = context;
  if (scope === 'user') return ofUser;
  const { userId: _user, ...ofWorkspace } = ofUser;
  return scope === 'workspace' ? ofWorkspace : context;
}
