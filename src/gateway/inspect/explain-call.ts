import { AmbitError } from '../../errors.ts';
import { scanObject } from '../../protocol/json/scan.ts';
import type { RuleOutcome } from '../../rules/decision.ts';
import type { Session } from '../../sessions/session.ts';
import type { ServerResolution } from '../../upstreams/access/resolution.ts';
import type { ToolAccess } from '../../upstreams/access/tool-access.ts';
import { isShortName, splitPublicName } from '../../upstreams/catalog/list-entries.ts';
import { type OwnToolList, ownServer } from '../routing/own-server.ts';

/** A value that a decision was based on, and its source. */
interface ClaimView {
  readonly claim: string;
  readonly value: string | readonly string[];
  readonly source: string;
}

/** The decision about a call: the rule and the claims behind it. */
export interface CallExplanation {
  readonly sessionId: string;
  readonly server: string;
  readonly tool: string;
  readonly allowed: boolean;
  readonly rule: string;
  readonly reason: string;
  readonly claims: readonly ClaimView[];
  /** The rules that name the tool, with their results for these arguments. */
  readonly rules: readonly RuleOutcome[];
}

interface ExplainCallParts {
  readonly resolution: ServerResolution;
  readonly tools: ToolAccess;
  readonly ownTools: OwnToolList;
}

export function explainCall(
  { resolution, tools, ownTools }: ExplainCallParts,
  session: Session,
  name: string,
  args: string | undefined,
): CallExplanation {
  const isOwn = ownTools.has(name);
  const parts = isOwn ? { server: ownServer, name } : splitPublicName(name);
  if (parts === undefined) {
    throw new AmbitError('REQUEST_INVALID', {
      what: `"${name.slice(0, 100)}" is not the name of a tool.`,
      hint: 'Write it as server__tool. Ambit’s own tools have no prefix.',
    });
  }
  if (!isOwn && isShortName(name)) {
    throw new AmbitError('REQUEST_INVALID', {
      what: `"${name.slice(0, 100)}" is a short name, and rules match the real name of the tool.`,
      hint: 'Use the real name, as server__tool. The journal has it: see "ambit audit tail".',
    });
  }
  if (args !== undefined) assertJsonObject(args);
  const { server, name: tool } = parts;
  const about = { sessionId: session.id, server, tool };
  const bound = ['session.trustLevel', 'session.workspaceId', 'session.servers'];
  const explained = isOwn ? undefined : resolution.explain(session).find((each) => each.name === server);
  if (!isOwn && explained?.server === undefined) {
    const removal = explained?.removal ?? { rule: 'servers', reason: `there is no server "${server}"` };
    const names = removal.rule === 'session.servers' ? ['session.servers'] : bound;
    return { ...about, allowed: false, ...removal, claims: listClaims(session, about, args, names), rules: [] };
  }
  const { allowed, rule, reason, claims, rules } = tools.decide(session, server, tool, args);
  const names = isOwn ? claims : [...bound, ...claims];
  return { ...about, allowed, rule, reason, claims: listClaims(session, about, args, names), rules };
}

function assertJsonObject(args: string): void {
  try {
    scanObject(Buffer.from(args));
  } catch (cause) {
    throw new AmbitError('REQUEST_INVALID', { what: 'The arguments are not a JSON object.', cause });
  }
}

const fromRecord = 'the session’s record';
const fromCall = 'the call';

function listClaims(
  session: Session,
  call: { readonly server: string; readonly tool: string },
  args: string | undefined,
  names: readonly string[],
): ClaimView[] {
  return [...new Set(names)].flatMap((claim): ClaimView[] => {
    if (claim === 'server' || claim === 'tool') return [{ claim, value: call[claim], source: fromCall }];
    if (claim === 'args' || claim.startsWith('args.')) {
      return [{ claim, value: readArgument(claim, args), source: `${fromCall}; stated by the agent` }];
    }
    const key = claim.slice('session.'.length) as 'id' | 'userId' | 'agentId' | 'workspaceId' | 'trustLevel';
    const value = (session as unknown as Record<string, string | readonly string[] | undefined>)[key];
    // A session without a list of servers is not restricted by one.
    if (claim === 'session.servers' && value === undefined) return [];
    return [{ claim, value: value ?? '', source: fromRecord }];
  });
}

const maxShownLength = 200;

function readArgument(claim: string, args: string | undefined): string {
  let value: unknown = { args: JSON.parse(args ?? '{}') as unknown };
  for (const name of claim.split('.')) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return '';
    value = (value as Record<string, unknown>)[name];
  }
  const text = JSON.stringify(value);
  return text.length > maxShownLength ? `${text.slice(0, maxShownLength - 1)}…` : text;
}
