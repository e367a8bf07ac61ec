import type { Config } from '../../config/schema/schema.ts';
import { AmbitError } from '../../errors.ts';
import { findMember, readRawValue, readStringValue } from '../../protocol/json/scan.ts';
import type { Message } from '../../protocol/message.ts';
import { readRuleArguments } from '../../protocol/rule-arguments.ts';
import type { Decision, ReadArguments } from '../../rules/decision.ts';
import type { SessionClaims } from '../../rules/session-base.ts';
import { createToolRules, listReplacements, type ServerToolRules, type ToolRules } from '../../rules/tool-rules.ts';
import { viewLike } from '../../sessions/narrowed-sessions.ts';
import type { Session } from '../../sessions/session.ts';

/** Decides which tools of a server a session may call, once it may use the server. */
export interface ToolAccess {
  /** The policy for the tools of a server; undefined when nothing restricts them. */
  policyFor(server: string): ServerToolRules | undefined;
  /** Throws PERMISSION_DENIED unless this call is allowed. Notes in `entry` what decided, if anything restricts the server. */
  assertAllowed(
    session: Session,
    server: string,
    tool: string | undefined,
    call: Message,
    entry?: { rule: string | undefined; claims: string | undefined },
  ): void;
  /** The filter of the tools that are shown; undefined when all are. */
  visibleToolFilter(session: Session, server: string): ((tool: string) => boolean) | undefined;
  /** Finds the own tool that replaces one of the server; undefined when no tool of this server is replaced. */
  replacementFinder(server: string): ((tool: string) => string | undefined) | undefined;
  decide(session: Session, server: string, tool: string, args: string | undefined): Decision;
  /** A key for each server: equal as long as the session sees the same tools of it. */
  visibleToolsKeys(session: Session, servers: readonly string[]): ReadonlyMap<string, string>;
}

interface ToolAccessOptions {
  readonly config: () => Config;
  /** Finds the latest record. A caller may hold one from before a restriction. */
  readonly latest: (id: string) => Session | undefined;
}

export function createToolAccess({ config, latest }: ToolAccessOptions): ToolAccess {
  let known: { readonly config: Config; readonly policy: ToolRules } | undefined;

  function policyFor(server: string): ServerToolRules | undefined {
    const now = config();
    if (known?.config !== now) known = { config: now, policy: createToolPolicies(now) };
    return known.policy.for(server);
  }

  function currentClaims(session: Session): SessionClaims {
    const record = latest(session.id);
    if (record === undefined) throw new AmbitError('SESSION_ENDED');
    return toClaims(record === session ? record : viewLike(record, session));
  }

  return {
    policyFor,

    assertAllowed(session, server, tool, call, entry) {
      const policy = policyFor(server);
      if (policy === undefined) return;
      const held = currentClaims(session);
      const decision = policy.decide(held, tool ?? '', argumentsReader(call));
      if (entry !== undefined) {
        entry.rule = decision.rule;
        entry.claims = writeSessionClaims(decision.claims, held);
      }
      if (!decision.allowed) throw deniedError(tool ?? '', decision);
    },

    visibleToolFilter(session, server) {
      const policy = policyFor(server);
      if (policy === undefined) return undefined;
      const held = currentClaims(session);
      // A tool that lacks only a scope is shown: a client learns the scope by calling it.
      const obtainable = Object.keys(session.tokenPermissions?.governed ?? {});
      const perhaps = obtainable.length === 0 ? held : { ...held, permissions: [...held.permissions, ...obtainable] };
      return (tool) => policy.mayAllow(perhaps, tool);
    },

    replacementFinder(server) {
      const now = config();
      const tools = Object.hasOwn(now.servers, server) ? now.servers[server]?.tools : undefined;
      const better = tools === undefined || tools.hideReplaced ? [] : listReplacements(tools);
      return better.length === 0 ? undefined : (tool) => better.find((each) => each.matches(tool))?.by;
    },

    decide(session, server, tool, args) {
      const decision = policyFor(server)?.decide(currentClaims(session), tool, (names) =>
        readRuleArguments(args ?? '{}', names),
      );
      return decision ?? { allowed: true, rule: 'default', reason: 'nothing denies it', claims: ['tool'], rules: [] };
    },

    visibleToolsKeys(session, servers) {
      const held = toClaims(session);
      return new Map(servers.map((server) => [server, policyFor(server)?.visibleToolsKey(held) ?? '']));
    },
  };
}

function createToolPolicies({ servers, rules }: Config): ToolRules {
  return createToolRules((name) => (Object.hasOwn(servers, name) ? servers[name]?.tools : undefined), rules);
}

function toClaims({ id, userId, agentId, workspaceId, trustLevel, permissions }: Session): SessionClaims {
  return { id, userId, agentId: agentId ?? '', workspaceId: workspaceId ?? '', trustLevel, permissions };
}

const sessionPrefix = 'session.';
/** A session can have very many permissions. */
const maxListLength = 1000;

/** Writes the claims about the session among these, as JSON text. A long list is replaced by its length. */
function writeSessionClaims(names: readonly string[], held: SessionClaims): string | undefined {
  let members = '';
  for (const name of names) {
    if (!name.startsWith(sessionPrefix)) continue;
    const value = held[name.slice(sessionPrefix.length) as keyof SessionClaims];
    const text = JSON.stringify(value);
    const shown = Array.isArray(value) && text.length > maxListLength ? value.length : text;
    members += `${members === '' ? '' : ','}"${name}":${shown}`;
  }
  return members === '' ? undefined : `{${members}}`;
}

function argumentsReader({ bytes, params }: Message): ReadArguments {
  return (names) => {
    const member = findMember(params?.shape, 'arguments');
    return readRuleArguments(member === undefined ? '{}' : readRawValue(bytes, member), names);
  };
}

export function readToolName({ bytes, params }: Message): string | undefined {
  return readStringValue(bytes, findMember(params?.shape, 'name'));
}

function deniedError(tool: string, { rule, reason, hint, needs }: Decision): AmbitError {
  return new AmbitError('PERMISSION_DENIED', {
    what: `The tool "${tool.slice(0, 100)}" cannot be called: ${reason}.`,
    rule,
    ...(hint === undefined ? {} : { hint }),
    ...(needs === undefined ? {} : { needs }),
  });
}
