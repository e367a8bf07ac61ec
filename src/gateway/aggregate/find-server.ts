import type { Listed } from '../../upstreams/catalog/catalog.ts';
import { named } from '../../upstreams/catalog/merge.ts';
import { splitName } from '../../upstreams/catalog/tool-names.ts';
import type { ServerDefinition } from '../../upstreams/definition.ts';
import type { ForAll } from './for-all.ts';

export interface Found {
  readonly server: ServerDefinition;
  /** The name or URI on the server's side. */
  readonly name: string;
}

const shortened = 64;

/** Which server a public tool or prompt name belongs to. */
export async function findNamed(
  exchange: ForAll,
  name: string,
  what: 'tools' | 'prompts',
  look: () => Promise<readonly Listed[]>,
): Promise<Found | undefined> {
  if (name.length === shortened) {
    for (const { server, offer } of await look()) {
      const entry = named(server.name, offer?.[what] ?? []).find((each) => each.publicName === name);
      if (entry !== undefined) return { server, name: entry.name };
    }
  }
  const parts = splitName(name);
  const server = exchange.available.find((each) => each.name === parts?.server);
  return server === undefined || parts === undefined ? undefined : { server, name: parts.name };
}
