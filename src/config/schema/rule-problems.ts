import { loadConditions } from '../../rules/load-conditions.ts';
import { toolPattern } from '../../rules/tool-pattern.ts';
import type { Problem } from '../explain/problem.ts';
import { closest } from '../explain/suggest.ts';
import type { ConfigDraft } from './schema.ts';

/** Conditions that cannot be judged: found at the start, not by the first call that needs them. */
export async function ruleProblems(config: ConfigDraft): Promise<Problem[]> {
  if (config.rules.every(({ when }) => when === undefined)) return [];
  const compile = await loadConditions();
  return config.rules.flatMap(({ when }, index): Problem[] => {
    const found = when === undefined ? undefined : compile(when);
    if (found === undefined || !('problem' in found)) return [];
    return [{ path: ['rules', index, 'when'], at: 'value', message: found.problem }];
  });
}

/**
 * Patterns that can match nothing there is, and look like a bound. A warning each: the server they mean may be in an
 * included file that is missing today.
 */
export function misplacedPatterns(config: ConfigDraft): Problem[] {
  const servers = Object.keys(config.servers);
  const problems: Problem[] = [];
  const warn = (path: Problem['path'], message: string) => problems.push({ path, at: 'value', message });
  for (const [index, { allow, deny }] of config.rules.entries()) {
    for (const text of allow ?? deny ?? []) {
      const pattern = toolPattern(text);
      // Ambit's own tools go by their bare names.
      if (['session_', ...servers.map((name) => `${name}__`)].some(pattern.mayFollow)) continue;
      const meant = closest(text.split('__', 1)[0] as string, servers);
      const suggestion = meant === undefined ? '' : `; did you mean "${meant}__…"?`;
      warn(
        ['rules', index, allow === undefined ? 'deny' : 'allow'],
        `"${text}" fits no tool of any server${suggestion}`,
      );
    }
  }
  for (const [name, { tools }] of Object.entries(config.servers)) {
    for (const key of ['allow', 'deny'] as const) {
      for (const text of tools[key]) {
        if (!text.startsWith(`${name}__`)) continue;
        warn(['servers', name, 'tools', key], `here tools are named as the server does, without "${name}__"`);
      }
    }
  }
  return problems;
}
