import type { RuleArguments } from '../protocol/rule-arguments.ts';
import type { Condition, ConditionResult } from './condition.ts';
import type { Decision, ReadArguments, RuleInput, RuleOutcome } from './decision.ts';
import type { SessionClaims } from './session-base.ts';
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

/** `servers.*.tools` of the configuration; patterns match the tool's own name. */
export interface ToolFilterTexts {
  readonly allow: readonly string[];
  readonly deny: readonly string[];
  /** The permission that a session needs, by pattern. */
  readonly permissions: Readonly<Record<string, string>>;
  /** The tool of Ambit to use instead, by pattern. */
  readonly instead: Readonly<Record<string, string>>;
  readonly hideReplaced: boolean;
}

interface ToolFilters {
  findRefusal(tool: string, held: readonly string[]): Decision | undefined;
  /** The claims that were needed to pass the filters. */
  listClaims(tool: string): readonly string[];
  /** The filters that apply to a session with these permissions. */
  listActive(held: readonly string[]): readonly unknown[];
}

/** Creates the filters of a server; undefined if they allow everything. */
function createToolFilters(server: string, texts: ToolFilterTexts | undefined): ToolFilters | undefined {
  if (texts === undefined) return undefined;
  const allow = texts.allow.map(compileToolPattern);
  const deny = texts.deny.map(compileToolPattern);
  const needs = Object.entries(texts.permissions).map(([text, permission]) => ({
    ...compileToolPattern(text),
    permission,
  }));
  const replaced = texts.hideReplaced ? listReplacements(texts) : [];
  const open = texts.allow.includes('*');
  if (open && deny.length === 0 && needs.length === 0 && replaced.length === 0) return undefined;
  const key = `servers.${server}.tools`;
  const fits = (tool: string) => (pattern: ToolPattern) => pattern.matches(tool);
  // A restriction covers every spelling that a careless server might accept for a tool.
  const resembles = (tool: string) => (pattern: ToolPattern) => pattern.resembles(tool);

  return {
    findRefusal(tool, held) {
      const denying = deny.find(resembles(tool));
      if (denying !== undefined) return denyTool(`${key}.deny`, `"${denying.text}" in ${key}.deny denies it`);
      if (!open && !allow.some(fits(tool))) return denyTool(`${key}.allow`, `it is not in ${key}.allow`);
      const better = replaced.find(resembles(tool));
      if (better !== undefined) {
        return { ...denyTool(`${key}.instead`, `"${better.by}" replaces it`), hint: `Call ${better.by}.` };
      }
      const missing = needs.find((need) => need.resembles(tool) && !held.includes(need.permission));
      if (missing === undefined) return undefined;
      const { permission } = missing;
      return {
        ...denyTool(`${key}.permissions`, `it needs the permission "${permission}", which the session does not have`),
        hint: `Continue without this tool, or ask for a session created with "--permission ${permission}".`,
        needs: needs.filter(resembles(tool)).map((need) => need.permission),
        claims: ['session.permissions', 'tool'],
      };
    },
    listClaims: (tool) => (needs.some(resembles(tool)) ? ['session.permissions'] : []),
    listActive(held) {
      const unmet = needs.filter(({ permission }) => !held.includes(permission)).map(({ text }) => text);
      const hidden = replaced.map(({ text }) => text);
      const nothing = open && deny.length === 0 && unmet.length === 0 && hidden.length === 0;
      return nothing ? [] : [texts.allow, texts.deny, unmet, hidden];
    },
  };
}

export function listReplacements({
  instead,
}: Pick<ToolFilterTexts, 'instead'>): readonly (ToolPattern & { readonly by: string })[] {
  return Object.entries(instead).map(([text, by]) => ({ ...compileToolPattern(text), by }));
}

function denyTool(rule: string, reason: string): Decision {
  return { allowed: false, rule, reason, claims: ['tool'], rules: [] };
}

/** Compiles a condition, or returns the problem in words. */
type CompileCondition = (text: string) => Condition | { readonly problem: string };

let engine: CompileCondition | undefined;

/** Loads the condition engine. It costs some milliseconds, so only a configuration with conditions loads it. */
export async function loadConditions(): Promise<CompileCondition> {
  engine ??= (await import('./condition.ts')).compileCondition;
  return engine;
}

/** Returns a condition that was checked when its configuration was loaded. */
function requireCondition(text: string): Condition {
  const condition = engine?.(text) ?? { problem: 'it was not loaded' };
  if ('problem' in condition) throw new Error(`a condition that cannot be evaluated: ${condition.problem}`);
  return condition;
}
