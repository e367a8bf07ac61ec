import type { Config } from '../../config/schema/schema.ts';
import { AmbitError } from '../../errors.ts';
import { memberOf, rawAt, stringAt } from '../../protocol/json/scan.ts';
import { readJudged } from '../../protocol/judged-value.ts';
import type { Message } from '../../protocol/message.ts';
import type { Decision, ReadArguments } from '../../rules/decision.ts';
import { createPolicy, type Policy, type ToolPolicy } from '../../rules/policy.ts';
import type { SessionClaims } from '../../rules/session-base.ts';
import { replacements } from '../../rules/tool-filters.ts';
import { standingAs } from '../../sessions/in-workspace.ts';
import type { Session } from '../../sessions/session.ts';

/** Decides which tools of a server a session may call, once it may use the server. */
export interface ToolBounds {
  /** The policy for the tools of a server; undefined when nothing restricts them. */
  of(server: string): ToolPolicy | undefined;
  /** Throws PERMISSION_DENIED unless this call is allowed. Returns the rule that allowed it, if there was one. */
  admit(session: Session, server: string, tool: string | undefined, call: Message): string | undefined;
  /** The filter of the tools that are shown; undefined when all are. */
  shown(session: Session, server: string): ((tool: string) => boolean) | undefined;
  /** Finds the own tool that replaces one of the server; undefined when no tool of this server is replaced. */
  replaced(server: string): ((tool: string) => string | undefined) | undefined;
  decide(session: Session, server: string, tool: string, args: string | undefined): Decision;
  /** A key for each server: equal as long as the session sees the same tools of it. */
  outlook(session: Session, servers: readonly string[]): ReadonlyMap<string, string>;
}

interface ToolAccessOptions {
  readonly config: () => Config;
  /** Finds the latest record. A caller may hold one from before a restriction. */
  readonly latest: (id: string) => Session | undefined;
}

export function createToolBounds({ config, latest }: ToolAccessOptions): ToolBounds {
  let known: { readonly config: Config; readonly policy: Policy } | undefined;

  function policyFor(server: string): ToolPolicy | undefined {
    const now = config();
    if (known?.config !== now) known = { config: now, policy: createToolPolicies(now) };
    return known.policy.for(server);
  }

  function currentClaims(session: Session): SessionClaims {
    const record = latest(session.id);
    if (record === undefined) throw new AmbitError('SESSION_ENDED');
    return toClaims(record === session ? record : standingAs(record, session));
  }

  return {
    of: policyFor,

    admit(session, server, tool, call) {
      const policy = policyFor(server);
      if (policy === undefined) return undefined;
      const decision = policy.decide(currentClaims(session), tool ?? '', argumentsReader(call));
      if (decision.allowed) return decision.rule;
      throw deniedError(tool ?? '', decision);
    },

    shown(session, server) {
      const policy = policyFor(server);
      if (policy === undefined) return undefined;
      const held = currentClaims(session);
      // A tool that lacks only a scope is shown: a client learns the scope by calling it.
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
      const decision = policyFor(server)?.decide(currentClaims(session), tool, (names) =>
        readJudged(args ?? '{}', names),
      );
      return decision ?? { allowed: true, rule: 'default', reason: 'nothing denies it', claims: ['tool'], rules: [] };
    },

    outlook(session, servers) {
      const held = toClaims(session);
      return new Map(servers.map((server) => [server, policyFor(server)?.outlook(held) ?? '']));
    },
  };
}

function createToolPolicies({ servers, rules }: Config): Policy {
  return createPolicy((name) => (Object.hasOwn(servers, name) ? servers[name]?.tools : undefined), rules);
}

function toClaims({ id, userId, agentId, workspaceId, trustLevel, permissions }: Session): SessionClaims {
  return { id, userId, agentId: agentId ?? '', workspaceId: workspaceId ?? '', trustLevel, permissions };
}

function argumentsReader({ bytes, params }: Message): ReadArguments {
  return (names) => {
    const member = memberOf(params?.shape, 'arguments');
    return readJudged(member === undefined ? '{}' : rawAt(bytes, member), names);
  };
}

/** Reads the name of the tool from a `tools/call`. */
export function toolOf({ bytes, params }: Message): string | undefined {
  return stringAt(bytes, memberOf(params?.shape, 'name'));
}

function deniedError(tool: string, { rule, reason, hint, needs }: Decision): AmbitError {
  return new AmbitError('PERMISSION_DENIED', {
    what: `The tool "${tool.slice(0, 100)}" may not be called like this: ${reason}.`,
    rule,
    ...(hint === undefined ? {} : { hint }),
    ...(needs === undefined ? {} : { needs }),
  });
}
