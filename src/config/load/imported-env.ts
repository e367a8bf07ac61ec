import { refusedVariable } from '../../context/for-tools/foreign-env.ts';
import type { Problem } from '../explain/problem.ts';
import type { ConfigDraft } from '../schema/schema.ts';

/** Variables of imported servers that only the operator may set; without the mark the server is the operator's own. */
export function importedProblems(config: ConfigDraft): Problem[] {
  return Object.entries(config.servers).flatMap(([name, server]) => {
    if (server.source !== 'imported' || server.transport !== 'stdio') return [];
    return Object.entries(server.env).flatMap(([variable, value]): Problem[] => {
      const refused = refusedVariable(variable, value, config.context.envPrefixes);
      if (refused === undefined) return [];
      const message = `${refused}; take out "imported" to make the server your own`;
      return [{ path: ['servers', name, 'env', variable], at: 'key', message }];
    });
  });
}
