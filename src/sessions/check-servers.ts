import { closest } from '../config/explain/suggest.ts';
import type { Config } from '../config/schema/schema.ts';
import { AmbitError } from '../errors.ts';

const most = 1000;

/** The names of a session's own list, each once. One that no server has is refused: it would only look like a bound. */
export function checkServers(names: readonly string[], config: Config, known: readonly string[] = []): string[] {
  if (names.length > most) throw new AmbitError('REQUEST_INVALID', { what: `At most ${most} servers can be named.` });
  for (const name of names) {
    if (known.includes(name) || Object.hasOwn(config.servers, name)) continue;
    const meant = closest(name, Object.keys(config.servers));
    throw new AmbitError('REQUEST_INVALID', {
      what: `There is no server "${name.slice(0, 60)}"${meant === undefined ? '' : `; did you mean "${meant}"?`}`,
      hint: 'List the servers with "ambit server list".',
    });
  }
  return [...new Set(names)];
}
