import type { Config } from '../../config/schema/schema.ts';
import { AmbitError } from '../../errors.ts';
import { memberOf, rawAt, stringAt } from '../../protocol/json/scan.ts';
import { readJudged } from '../../protocol/judged-value.ts';
import type { Message } from '../../protocol/message.ts';
import type { Decision, ReadArguments } from '../../rules/decision.ts';
import { createPolicy, type Policy, type ToolPolicy } from '../../rules/policy.ts';
import type { SessionClaims } from '../../rules/session-base.ts';
import { replacements } from '../../rules/tool-filters.ts';
import type { Session } from '../../sessions/session.ts';
import { standingAs } from '../../sessions/session-views.ts';

/** Which tools of a server a session may call, once it may use the server. */
export interface ToolBounds {
  /** Undefined when nothing narrows the tools of this server: then there is nothing to ask. */
  of(server: string): ToolPolicy | undefined;
  /** Throws PERMISSION_DENIED unless this call is allowed; else the rule that allowed it, if one was asked. */
  admit(session: Session, server: string, tool: string | undefined, call: Message): string | undefined;
  /** Undefined when every tool is shown. */
  shown(session: Session, server: string): ((tool: string) => boolean) | undefined;
  /** The tool of our own to be used in place of one; undefined when there is none for any tool of this server. */
  replaced(server: string): ((tool: string) => string | undefined) | undefined;
  decide(session: Session, server: string, tool: string, args: string | undefined): Decision;
  /** Of each server by name: equal as long as the session is shown the same of its tools. */
  outlook(session: Session, servers: readonly string[]): ReadonlyMap<string, string>;
}

export interface ToolBoundsOptions {
  readonly config: () => Config;
  /** The record that counts now; whoever asks may hold one from before it was restricted. */
  readonly latest: (id: string) => Session | undefined;
}

export function createToolBounds({ config, latest }: ToolBoundsOptions): ToolBounds {
  let known: { readonly config: Config; readonly policy: Policy } | undefined;

  function of(server: string): ToolPolicy | undefined {
    const now = config();
    if (known?.config !== now) known = { config: now, policy: policyOf(now) };
    return known.policy.for(server);
  }

  function claims(session: Session): SessionClaims {
    const record = latest(session.id);
    if (record === undefined) throw new AmbitError('SESSION_ENDED');
    return claimsOf(record === session ? record : standingAs(record, session));
  }

  return {
    of,

    admit(session, server, tool, call) {
      const policy = of(server);
      if (policy === undefined) return undefined;
      const decision = policy.decide(claims(session), tool ?? '', argumentsOf(call));
      if (decision.allowed) return decision.rule;
      throw denied(tool ?? '', decision);
    },

    shown(session, server) {
      const policy = of(server);
      if (policy === undefined) return undefined;
      const held = claims(session);
      // A tool that only a scope is missing for is shown: calling it is how a client learns which one.
      const obtainable = Object.keys(session.byToken?.governed ?? {});
      const perhaps = obtainable.length === 0 ? held : { ...held, permissions: [...held.permissions, ...obtainable] };
      return (tool) => policy.could(perhaps, tool);
    },

    replaced(server) {
      const now = config();
      const tools = Object.hasOwn(now.servers, server) ? now.servers[server]?.tools : undefined;
      const better = tools === undefined || tools.hideReplaced ? [] : replacements(tools);
      return better.length === 0 ? undefined : (tool) => better.find((each) => each.matches(tool))?.by;
    },

    decide(session, server, tool, args) {
      const decision = of(server)?.decide(claims(session), tool, (names) => readJudged(args ?? '{}', names));
      return decision ?? { allowed: true, rule: 'default', reason: 'nothing denies it', claims: ['tool'], rules: [] };
    },

    outlook(session, servers) {
      const held = claimsOf(session);
      return new Map(servers.map((server) => [server, of(server)?.outlook(held) ?? '']));
    },
  };
}

function policyOf({ servers, rules }: Config): Policy {
  return createPolicy((name) => (Object.hasOwn(servers, name) ? servers[name]?.tools : undefined), rules);
}

function claimsOf({ id, userId, agentId, workspaceId, trustLevel, permissions }: Session): SessionClaims {
  return { id, userId, agentId: agentId ?? '', workspaceId: workspaceId ?? '', trustLevel, permissions };
}

function argumentsOf({ bytes, params }: Message): ReadArguments {
  return (names) => {
    const member = memberOf(params?.shape, 'arguments');
    return readJudged(member === undefined ? '{}' : rawAt(bytes, member), names);
  };
}

/** The name of the tool that a `tools/call` asks for. */
export function toolOf({ bytes, params }: Message): string | undefined {
  return stringAt(bytes, memberOf(params?.shape, 'name'));
}

function denied(tool: string, { rule, reason, hint, needs }: Decision): AmbitError {
  return new AmbitError('PERMISSION_DENIED', {
    what: `The tool "${tool.slice(0, 100)}" may not be called like this: ${reason}.`,
    rule,
    ...(hint === undefined ? {} : { hint }),
    ...(needs === undefined ? {} : { needs }),
  });
}
