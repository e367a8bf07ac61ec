import type { RuleArguments } from '../protocol/rule-arguments.ts';
import type { Condition, ConditionResult } from './condition.ts';
import type { Decision, ReadArguments, RuleInput, RuleOutcome } from './decision.ts';
import { requireCondition } from './load-conditions.ts';
import type { SessionClaims } from './session-base.ts';
import { createToolFilters, denyTool, type ToolFilters, type ToolFilterTexts } from './tool-filters.ts';
import { compileToolPattern, type ToolPattern } from './tool-pattern.ts';

/** A rule as written in the configuration. */
export interface RuleText {
  readonly id: string;
  readonly allow?: readonly string[] | undefined;
  readonly deny?: readonly string[] | undefined;
  readonly when?: string | undefined;
}

/** The rules and filters for the tools of one server. Each call is decided anew; no decision is cached. */
export interface ServerToolRules {
  decide(session: SessionClaims, tool: string, args: ReadArguments): Decision;
  /** Whether some call of the tool could be allowed: a condition on arguments may always hold. */
  mayAllow(session: SessionClaims, tool: string): boolean;
  /** Returns a key that is equal for sessions, and configurations, that see the same tools. */
  visibleToolsKey(session: SessionClaims): string;
}

export interface ToolRules {
  /** Undefined if nothing restricts the tools of this server. */
  for(server: string): ServerToolRules | undefined;
}

interface Rule {
  readonly id: string;
  readonly effect: 'allow' | 'deny';
  readonly patterns: readonly ToolPattern[];
  readonly condition: Condition | undefined;
}

/** The facts about one tool that are equal for all sessions and arguments. */
interface ConcernedTool {
  /** The rules that name the tool. */
  readonly rules: readonly Rule[];
  /** The names that these rules look up in the arguments; undefined if none reads them. */
  readonly names: ReadonlySet<string> | undefined;
  /** The claims that the rules and filters read to allow a call. */
  readonly claims: readonly string[];
}

/** Ambit's own tools have no prefix. */
const ownServer = 'ambit';
const maxNameLength = 512;
/** Names come from clients, so the number of remembered ones is limited. */
const maxKnownTools = 1000;
/** Condition of an allow rule that matches another spelling of the name only. */
const neverHolds: Condition = {
  text: '',
  readsArgs: false,
  names: new Set(),
  claims: ['tool'],
  loops: { nested: 0, times: 0 },
  judge: () => ({ holds: false }),
};
const noArguments: RuleArguments = { kind: 'read', value: new Map(), values: 1, length: 2 };

export function createToolRules(
  filtersOf: (server: string) => ToolFilterTexts | undefined,
  texts: readonly RuleText[],
): ToolRules {
  const rules = texts.map(compileRule);
  const rulesByServer = new Map<string, ServerToolRules | undefined>();
  return {
    for(server) {
      if (rulesByServer.has(server)) return rulesByServer.get(server);
      const prefix = server === ownServer ? '' : `${server}__`;
      const concerning = rules.filter(({ patterns }) => patterns.some((pattern) => pattern.mayFollow(prefix)));
      const filters = createToolFilters(server, filtersOf(server));
      const policy =
        concerning.length === 0 && filters === undefined
          ? undefined
          : createServerToolRules(server, prefix, filters, concerning);
      rulesByServer.set(server, policy);
      return policy;
    },
  };
}

function compileRule({ id, allow, deny, when }: RuleText): Rule {
  return {
    id,
    effect: deny === undefined ? 'allow' : 'deny',
    patterns: (deny ?? allow ?? []).map(compileToolPattern),
    condition: when === undefined ? undefined : requireCondition(when),
  };
}

function createServerToolRules(
  server: string,
  prefix: string,
  filters: ToolFilters | undefined,
  rules: readonly Rule[],
): ServerToolRules {
  // A rule concerns every spelling that a careless server might accept for a tool; it allows only the exact one.
  const findRulesFor = (tool: string): readonly Rule[] =>
    rules.flatMap((rule) => {
      if (!rule.patterns.some((pattern) => pattern.resembles(prefix + tool))) return [];
      const allowsOther = rule.effect === 'allow' && !rule.patterns.some((pattern) => pattern.matches(prefix + tool));
      return [allowsOther ? { ...rule, condition: neverHolds } : rule];
    });

  const knownTools = new Map<string, ConcernedTool>();

  function findConcerned(tool: string): ConcernedTool {
    const known = knownTools.get(tool);
    if (known !== undefined) return known;
    const concerning = findRulesFor(tool);
    const reading = concerning.filter(({ condition }) => condition?.readsArgs);
    const concerned = {
      rules: concerning,
      names:
        reading.length === 0 ? undefined : new Set(reading.flatMap(({ condition }) => [...(condition?.names ?? [])])),
      claims: listClaims(
        concerning.map(({ condition }) => condition?.claims ?? []),
        filters?.listClaims(tool),
      ),
    };
    if (knownTools.size >= maxKnownTools) knownTools.clear();
    knownTools.set(tool, concerned);
    return concerned;
  }

  return {
    decide(session, tool, readArguments) {
      if (tool.length > maxNameLength)
        return denyTool('default', `its name is longer than ${maxNameLength} characters`);
      const refusal = filters?.findRefusal(tool, session.permissions);
      if (refusal !== undefined) return refusal;
      const concerned = findConcerned(tool);
      const args = concerned.names === undefined ? noArguments : readArguments(concerned.names);
      return decideByRules({ session, server, tool }, args, concerned);
    },

    mayAllow(session, tool) {
      if (tool.length > maxNameLength || filters?.findRefusal(tool, session.permissions) !== undefined) return false;
      let [named, open] = [false, false];
      for (const { effect, condition } of findRulesFor(tool)) {
        if (effect === 'allow') named = true;
        const perhaps = condition?.readsArgs === true;
        const verdict = perhaps
          ? { holds: effect === 'allow' }
          : evaluateCondition(condition, { session, server, tool }, noArguments);
        if ('error' in verdict || (effect === 'deny' && verdict.holds)) return false;
        if (effect === 'allow' && verdict.holds) open = true;
      }
      return open || !named;
    },

    visibleToolsKey(session) {
      const seen = rules.flatMap(({ effect, patterns, condition }): unknown[] => {
        const texts = patterns.map(({ text }) => text);
        if (condition === undefined) return [[effect, texts]];
        if (condition.readsArgs) return effect === 'deny' ? [] : [[effect, texts, 'perhaps']];
        // The condition may differ from tool to tool.
        if (condition.claims.includes('tool')) return [[effect, texts, condition.text, session]];
        const verdict = condition.judge({ session, server, tool: '' }, undefined);
        if (effect === 'deny' && 'holds' in verdict && !verdict.holds) return [];
        return [[effect, texts, verdict]];
      });
      const filtered = filters?.listActive(session.permissions) ?? [];
      return seen.length === 0 && filtered.length === 0 ? '' : JSON.stringify([filtered, seen]);
    },
  };
}

/**
 * Decides by the rules that name the tool. Deny wins, and so does an error in any condition. A tool that allow rules
 * name is allowed if one of them holds; a tool that none names is allowed by default.
 */
function decideByRules(call: RuleInput, args: RuleArguments, { rules, claims }: ConcernedTool): Decision {
  const outcomes = rules.map((rule) => createOutcome(rule, evaluateCondition(rule.condition, call, args)));
  const allowed = (rule: string, reason: string): Decision => ({
    allowed: true,
    rule,
    reason,
    claims,
    rules: outcomes,
  });
  const denied = (rule: string, reason: string, from: readonly RuleOutcome[]): Decision => ({
    allowed: false,
    rule,
    reason,
    claims: listClaims(from.map((outcome) => outcome.claims)),
    rules: outcomes,
  });
  const denying = outcomes.find(({ effect, outcome }) => effect === 'deny' && outcome === 'holds');
  if (denying !== undefined) return denied(denying.id, `the rule "${denying.id}" denies it`, [denying]);
  const failed = outcomes.find(({ outcome }) => outcome === 'error');
  if (failed !== undefined) {
    const why = `the rule "${failed.id}" cannot be evaluated for this call and therefore denies it: ${failed.error}`;
    return denied(failed.id, why, [failed]);
  }
  const allowing = outcomes.filter(({ effect }) => effect === 'allow');
  const [first] = allowing;
  if (first === undefined) return allowed('default', 'nothing denies it');
  const holding = allowing.find(({ outcome }) => outcome === 'holds');
  if (holding !== undefined) return allowed(holding.id, `the rule "${holding.id}" allows it`);
  const ids = allowing.map(({ id }) => `"${id}"`).join(', ');
  const unmet = allowing.length === 1 ? 'its condition is' : 'their conditions are';
  return denied(first.id, `only ${ids} could allow it, and ${unmet} not met for this call`, allowing);
}

/** Lists the claims of rules and filters, each once. Every decision reads the name of the tool. */
function listClaims(ofRules: readonly (readonly string[])[], ofFilters: readonly string[] = []): readonly string[] {
  return [...new Set(['tool', ...ofRules.flat(), ...ofFilters])].sort();
}

function evaluateCondition(condition: Condition | undefined, call: RuleInput, args: RuleArguments): ConditionResult {
  return condition === undefined ? { holds: true } : condition.judge(call, args);
}

function createOutcome({ id, effect, condition }: Rule, verdict: ConditionResult): RuleOutcome {
  const claims = condition?.claims ?? [];
  if ('error' in verdict) return { id, effect, outcome: 'error', error: verdict.error, claims };
  return { id, effect, outcome: verdict.holds ? 'holds' : 'does not hold', claims };
}
