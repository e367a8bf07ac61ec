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

/** The rules and filters for the tools of one server. Each call is decided anew; nothing is cached. */
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

/** Ambit's own tools have no prefix. */
const ownServer = 'ambit';
const maxNameLength = 512;
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

  return {
    decide(session, tool, readArguments) {
      if (tool.length > maxNameLength)
        return denyTool('default', `its name is longer than ${maxNameLength} characters`);
      const refusal = filters?.findRefusal(tool, session.permissions);
      if (refusal !== undefined) return refusal;
      const concerned = findRulesFor(tool);
      const reading = concerned.filter(({ condition }) => condition?.readsArgs);
      const names = new Set(reading.flatMap(({ condition }) => [...(condition?.names ?? [])]));
      const args = reading.length === 0 ? noArguments : readArguments(names);
      return decideByRules({ session, server, tool }, args, concerned, filters?.listClaims(tool) ?? []);
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
function decideByRules(
  call: RuleInput,
  args: RuleArguments,
  rules: readonly Rule[],
  filterClaims: readonly string[],
): Decision {
  const outcomes = rules.map((rule) => createOutcome(rule, evaluateCondition(rule.condition, call, args)));
  const claimed = (...of: readonly RuleOutcome[]) =>
    [...new Set(['tool', ...of.flatMap(({ claims }) => claims)])].sort();
  const decided = (allowed: boolean, rule: string, reason: string, from: readonly RuleOutcome[]): Decision => ({
    allowed,
    rule,
    reason,
    claims: allowed ? [...new Set([...claimed(...from), ...filterClaims])].sort() : claimed(...from),
    rules: outcomes,
  });
  const denying = outcomes.find(({ effect, outcome }) => effect === 'deny' && outcome === 'holds');
  if (denying !== undefined) return decided(false, denying.id, `the rule "${denying.id}" denies it`, [denying]);
  const failed = outcomes.find(({ outcome }) => outcome === 'error');
  if (failed !== undefined) {
    const why = `the rule "${failed.id}" cannot be evaluated for this call and therefore denies it: ${failed.error}`;
    return decided(false, failed.id, why, [failed]);
  }
  const allowing = outcomes.filter(({ effect }) => effect === 'allow');
  const [first] = allowing;
  if (first === undefined) return decided(true, 'default', 'nothing denies it', outcomes);
  const holding = allowing.find(({ outcome }) => outcome === 'holds');
  if (holding !== undefined) return decided(true, holding.id, `the rule "${holding.id}" allows it`, outcomes);
  const ids = allowing.map(({ id }) => `"${id}"`).join(', ');
  const unmet = allowing.length === 1 ? 'its condition is' : 'their conditions are';
  return decided(false, first.id, `only ${ids} could allow it, and ${unmet} not met for this call`, allowing);
}

function evaluateCondition(condition: Condition | undefined, call: RuleInput, args: RuleArguments): ConditionResult {
  return condition === undefined ? { holds: true } : condition.judge(call, args);
}

function createOutcome({ id, effect, condition }: Rule, verdict: ConditionResult): RuleOutcome {
  const claims = condition?.claims ?? [];
  if ('error' in verdict) return { id, effect, outcome: 'error', error: verdict.error, claims };
  return { id, effect, outcome: verdict.holds ? 'holds' : 'does not hold', claims };
}
