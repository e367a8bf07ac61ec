import type { Listed } from '../../upstreams/catalog/catalog.ts';
import { named, splitName } from '../../upstreams/catalog/list-entries.ts';
import type { ServerDefinition } from '../../upstreams/definition.ts';
import type { ForAll } from './for-all.ts';

export interface Found {
  readonly server: ServerDefinition;
  /** The name or URI on the server's side. */
  readonly name: string;
}

const shortened = 64;

/** Finds the server that a public tool or prompt name belongs to. Only a name that was shortened needs the lists. */
export function findNamed(
  exchange: ForAll,
  name: string,
  what: 'tools' | 'prompts',
  look: () => Promise<readonly Listed[]>,
): Found | undefined | Promise<Found | undefined> {
  if (name.length !== shortened) return findPrefixed(exchange, name);
  return look().then((lists) => {
    for (const { server, offer } of lists) {
      const entry = named(server.name, offer?.[what] ?? []).find((each) => each.publicName === name);
      if (entry !== undefined) return { server, name: entry.name };
    }
    return findPrefixed(exchange, name);
  });
}

function findPrefixed(exchange: ForAll, name: string): Found | undefined {
  const parts = splitName(name);
  const server = exchange.available.find((each) => each.name === parts?.server);
  return server === undefined || parts === undefined ? undefined : { server, name: parts.name };
}
