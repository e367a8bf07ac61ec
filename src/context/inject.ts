import { AmbitError } from '../errors.ts';
import {
  type ContextField,
  checkedContext,
  checkedPrefixes,
  contextNames,
  type SessionContext,
} from './context-names.ts';
import { refusedOverride, refusedVariable } from './foreign-env.ts';

/** Who wrote a server down. Only the operator may pin what a server is told. */
export type EnvSource = 'operator' | 'imported' | 'project';

/** Where the value of a variable comes from. */
export type Provenance = 'injected' | 'pinned' | 'configured' | 'workspace';

/** As much of an entry of `mcpServers` as matters here; whatever else it has stays. */
export interface InjectableServer {
  readonly command?: string | undefined;
  readonly args?: readonly string[] | undefined;
  readonly env?: Readonly<Record<string, string>> | undefined;
  readonly url?: string | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

export interface InjectionOptions {
  /** The names are repeated under each; `['AMBIT']` unless said. */
  readonly prefixes?: readonly string[] | undefined;
  /** Decides what happens to context names the servers bring along; `operator` unless said. */
  readonly source?: EnvSource | undefined;
  /** A workspace's own variables, by server: set last, and never the context. */
  readonly overrides?: Readonly<Record<string, Readonly<Record<string, string>>>> | undefined;
}

/** The same entry; one with a command has its context in `env`. */
export type Injected<Server> = Server extends unknown
  ? Omit<Server, 'env'> & { readonly env?: Readonly<Record<string, string>> | undefined }
  : never;

export interface Injection<Server> {
  readonly servers: Record<string, Injected<Server>>;
  /** By server and variable; servers that are not started as a process have none. */
  readonly provenance: Record<string, Record<string, Provenance>>;
}

/**
 * A new map of servers, each with the session's context in its environment; the one given is never changed.
 * Servers without a command are reached over HTTP and have no environment: they stay as they are.
 */
export function injectSessionContext<Server extends InjectableServer>(
  servers: Readonly<Record<string, Server>>,
  context: SessionContext,
  options: InjectionOptions = {},
): Record<string, Injected<Server>> {
  return explainInjection(servers, context, options).servers;
}

/** The same, with where each variable comes from. */
export function explainInjection<Server extends InjectableServer>(
  servers: Readonly<Record<string, Server>>,
  context: SessionContext,
  options: InjectionOptions = {},
): Injection<Server> {
  const { source = 'operator', overrides = {} } = options;
  const prefixes = checkedPrefixes(options.prefixes ?? ['AMBIT']);
  const told = checkedContext(context);
  const entries: [string, Injected<Server>][] = [];
  const origins: [string, Record<string, Provenance>][] = [];
  for (const [name, server] of Object.entries(servers)) {
    if (server.command === undefined) {
      entries.push([name, { ...server } as Injected<Server>]);
      continue;
    }
    const configured = server.env ?? {};
    if (source !== 'operator') refuseForeign(name, configured, prefixes);
    const variables = new Map<string, readonly [string, Provenance]>();
    for (const [variable, value] of Object.entries(configured)) variables.set(variable, [value, 'configured']);
    // Nobody can pin how far a session is trusted, not even where it is not told.
    for (const prefix of ['AMBIT', ...prefixes]) variables.delete(`${prefix}_${contextNames.trustLevel}`);
    for (const prefix of prefixes) {
      for (const field of fields) tell(variables, `${prefix}_${contextNames[field]}`, told.get(field));
    }
    for (const [variable, value] of Object.entries(Object.hasOwn(overrides, name) ? (overrides[name] ?? {}) : {})) {
      const refused = refusedOverride(variable, value, prefixes);
      if (refused !== undefined) throw notAllowed(name, variable, refused);
      variables.set(variable, [value, 'workspace']);
    }
    const env = Object.fromEntries([...variables].map(([variable, [value]]) => [variable, value]));
    entries.push([name, { ...server, env } as Injected<Server>]);
    origins.push([name, Object.fromEntries([...variables].map(([variable, [, origin]]) => [variable, origin]))]);
  }
  return { servers: Object.fromEntries(entries), provenance: Object.fromEntries(origins) };
}

const fields = Object.keys(contextNames) as ContextField[];

function tell(variables: Map<string, readonly [string, Provenance]>, name: string, value: string | undefined): void {
  const pinned = variables.get(name);
  if (pinned?.[1] === 'configured') variables.set(name, [pinned[0], 'pinned']);
  else if (value !== undefined) variables.set(name, [value, 'injected']);
}

function refuseForeign(server: string, env: Readonly<Record<string, string>>, prefixes: readonly string[]): void {
  for (const [variable, value] of Object.entries(env)) {
    const refused = refusedVariable(variable, value, prefixes);
    if (refused !== undefined) throw notAllowed(server, variable, refused);
  }
}

function notAllowed(server: string, variable: string, why: string): AmbitError {
  return new AmbitError('CONFIG_INVALID', {
    what: `The server "${server}" may not be given ${variable}: ${why}.`,
    hint: `Take ${variable} out of its environment.`,
    rule: 'context',
  });
}
