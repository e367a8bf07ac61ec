import { isDeepStrictEqual } from 'node:util';
import type { Config } from '../../config/schema/schema.ts';
import { createReservedKeys, type ReservedKeys } from '../../protocol/reserved-meta.ts';
import { defineServers, type ServerDefinition } from '../definition.ts';

/** The configuration as it is now; a reload replaces it as a whole. */
export interface LiveConfig {
  config(): Config;
  servers(): ReadonlyMap<string, ServerDefinition>;
  /** The `_meta` keys that pass neither way. */
  keys(): ReservedKeys;
  /** Returns the servers that were added, removed or changed. */
  replace(next: Config): string[];
}

export function createLiveConfig(first: Config, configDir: string): LiveConfig {
  let config = first;
  let servers = defineServers(first, configDir);
  let keys = createReservedKeys(first.context.announceKeys);
  return {
    config: () => config,
    servers: () => servers,
    keys: () => keys,
    replace(next) {
      const before = servers;
      config = next;
      keys = createReservedKeys(next.context.announceKeys);
      const defined = defineServers(next, configDir);
      // An unchanged server stays the same object.
      servers = new Map(
        [...defined].map(([name, server]) => {
          const known = before.get(name);
          return [name, known !== undefined && isDeepStrictEqual(known, server) ? known : server];
        }),
      );
      const names = new Set([...before.keys(), ...servers.keys()]);
      return [...names].filter((name) => before.get(name) !== servers.get(name));
    },
  };
}
