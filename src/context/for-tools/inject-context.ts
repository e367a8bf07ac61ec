import { AmbitError } from '../../errors.ts';
import { whyOverrideRefused, whyVariableRefused } from './refused-variables.ts';
import {
  assertPrefixes,
  type ContextField,
  contextNames,
  listKeyFileNames,
  readValues,
  type ToolContext,
} from './session-context.ts';

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
