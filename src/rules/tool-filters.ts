import type { Decision } from './decision.ts';
import { compileToolPattern, type ToolPattern } from './tool-pattern.ts';

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

export interface ToolFilters {
  findRefusal(tool: string, held: readonly string[]): Decision | undefined;
  /** The claims that were needed to pass the filters. */
  listClaims(tool: string): readonly string[];
  /** The filters that apply to a session with these permissions. */
  listActive(held: readonly string[]): readonly unknown[];
}

/** Creates the filters of a server; undefined if they allow everything. */
export function createToolFilters(server: string, texts: ToolFilterTexts | undefined): ToolFilters | undefined {
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

export function denyTool(rule: string, reason: string): Decision {
  return { allowed: false, rule, reason, claims: ['tool'], rules: [] };
}
