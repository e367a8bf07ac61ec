import { AmbitError } from '../../errors.ts';
import type { ActingSession, Optional, SessionBase } from '../../rules/session-base.ts';
import { normalizeTrust, type TrustLevel } from '../../rules/trust-level.ts';
import type { PseudonymKind, Pseudonyms } from './pseudonyms.ts';
import { findDanger, reservedName, whyVariableRefused } from './refused-variables.ts';

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

type ContextField = keyof ToolContext;

/** The name of each field in an environment, after the prefix. */
const contextNames = {
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
function readValues(context: ToolContext): ReadonlyMap<ContextField, string> {
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
function isContextName(name: string, prefixes: readonly string[]): boolean {
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

/** The origin of a server's configuration. Only the operator may set context variables by hand. */
export type EnvSource = 'operator' | 'imported' | 'project';

export type Provenance = 'injected' | 'pinned' | 'configured' | 'workspace' | 'credential';

/** The part of an entry of `mcpServers` that matters here. Other keys stay as they are. */
export interface InjectableServer {
  readonly command?: string | undefined;
  readonly args?: readonly string[] | undefined;
  readonly env?: Readonly<Record<string, string>> | undefined;
  readonly url?: string | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

export interface InjectionOptions {
  /** Prefixes of the variables, each of which gets all of them; `['AMBIT']` by default. */
  readonly prefixes?: readonly string[] | undefined;
  /** Decides how context variables of the servers themselves are treated; `operator` by default. */
  readonly source?: EnvSource | undefined;
  /** Variables of a workspace, by server. They are set last and never replace the context. */
  readonly overrides?: Readonly<Record<string, Readonly<Record<string, string>>>> | undefined;
}

/** The same entry. One with a command has its context in `env`. */
export type Injected<Server> = Server extends unknown
  ? Omit<Server, 'env'> & { readonly env?: Readonly<Record<string, string>> | undefined }
  : never;

export interface Injection<Server> {
  readonly servers: Record<string, Injected<Server>>;
  /** Origins by server and variable. Servers that are not started as a process have none. */
  readonly provenance: Record<string, Record<string, Provenance>>;
}

/**
 * Returns a new map of servers with the session's context in their environment. The given map is not changed. Servers
 * without a command are reached over HTTP, have no environment and stay as they are.
 */
export function injectSessionContext<Server extends InjectableServer>(
  servers: Readonly<Record<string, Server>>,
  context: ToolContext,
  options: InjectionOptions = {},
): Record<string, Injected<Server>> {
  return injectPlan(servers, planInjection(context, options), options);
}

/** Does the same, and returns the origin of each variable. */
export function explainInjection<Server extends InjectableServer>(
  servers: Readonly<Record<string, Server>>,
  context: ToolContext,
  options: InjectionOptions = {},
): Injection<Server> {
  const plan = planInjection(context, options);
  const injected = injectPlan(servers, plan, options);
  const started = Object.entries(servers).filter(([, { command }]) => command !== undefined);
  const origins = started.map(([name, { env: configured = {} }]) => {
    const override = findOverride(name, options);
    const originOf = (variable: string): Provenance => {
      if (Object.hasOwn(override, variable)) return 'workspace';
      if (!Object.hasOwn(configured, variable) || plan.unpinnable.includes(variable)) return 'injected';
      return plan.names.has(variable) ? 'pinned' : 'configured';
    };
    const variables = Object.keys(injected[name]?.env ?? {});
    return [name, Object.fromEntries(variables.map((variable) => [variable, originOf(variable)]))] as const;
  });
  return { servers: injected, provenance: Object.fromEntries(origins) };
}

interface InjectionPlan {
  readonly prefixes: readonly string[];
  readonly names: ReadonlySet<string>;
  readonly values: readonly (readonly [string, string])[];
  /** Variables that cannot be set by hand, even where the context omits them. */
  readonly unpinnable: readonly string[];
}

function planInjection(context: ToolContext, options: InjectionOptions): InjectionPlan {
  const prefixes = assertPrefixes(options.prefixes ?? ['AMBIT']);
  const values = readValues(context);
  const fields = Object.keys(contextNames) as ContextField[];
  const nameOf = (prefix: string, field: ContextField) => `${prefix}_${contextNames[field]}`;
  return {
    prefixes,
    names: new Set(prefixes.flatMap((prefix) => fields.map((field) => nameOf(prefix, field)))),
    values: prefixes.flatMap((prefix) => [...values].map(([field, value]) => [nameOf(prefix, field), value] as const)),
    unpinnable: [
      ...['AMBIT', ...prefixes].map((prefix) => nameOf(prefix, 'trustLevel')),
      ...listKeyFileNames(['AMBIT', ...prefixes]),
    ],
  };
}

function injectPlan<Server extends InjectableServer>(
  servers: Readonly<Record<string, Server>>,
  plan: InjectionPlan,
  options: InjectionOptions,
): Record<string, Injected<Server>> {
  const entries = Object.entries(servers).map(([name, server]) => {
    if (server.command === undefined) return [name, { ...server } as Injected<Server>] as const;
    const env: Record<string, string> = { ...server.env };
    if ((options.source ?? 'operator') !== 'operator') assertAllowed(name, env, plan.prefixes, whyVariableRefused);
    for (const variable of plan.unpinnable) delete env[variable];
    for (const [variable, value] of plan.values) if (!Object.hasOwn(env, variable)) env[variable] = value;
    const override = findOverride(name, options);
    assertAllowed(name, override, plan.prefixes, whyOverrideRefused);
    return [name, { ...server, env: { ...env, ...override } } as Injected<Server>] as const;
  });
  return Object.fromEntries(entries);
}

const noOverrides: Readonly<Record<string, string>> = {};

function findOverride(server: string, { overrides }: InjectionOptions): Readonly<Record<string, string>> {
  return overrides !== undefined && Object.hasOwn(overrides, server) ? (overrides[server] ?? noOverrides) : noOverrides;
}

function assertAllowed(
  server: string,
  env: Readonly<Record<string, string>>,
  prefixes: readonly string[],
  findReason: (name: string, value: string, prefixes: readonly string[]) => string | undefined,
): void {
  for (const [variable, value] of Object.entries(env)) {
    const why = findReason(variable, value, prefixes);
    if (why === undefined) continue;
    throw new AmbitError('CONFIG_INVALID', {
      what: `The server "${server}" cannot be started with the variable ${variable}: ${why}.`,
      hint: `Remove ${variable} from its environment.`,
      rule: 'context',
    });
  }
}

/** Tells why a workspace may not set a variable for a server; undefined when it may. */
export function whyOverrideRefused(name: string, value: string, prefixes: readonly string[]): string | undefined {
  return isContextName(name, prefixes) ? reservedName : findDanger(name, value);
}
