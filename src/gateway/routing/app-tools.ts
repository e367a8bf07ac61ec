import { AmbitError } from '../../errors.ts';
import { findMember, readStringValue, scanEntry } from '../../protocol/json/scan.ts';
import type { ServerListing } from '../../upstreams/catalog/catalog.ts';
import { toPublicName } from '../../upstreams/catalog/list-entries.ts';
import type { RouteTarget } from '../stages/route-tool.ts';

/** The servers whose apps each session was shown. */
export interface ShownApps {
  add(sessionId: string, server: string): void;
  list(sessionId: string): ReadonlySet<string>;
  forget(sessionId: string): void;
}

const maxSessions = 100_000;
const none: ReadonlySet<string> = new Set();

export function createShownApps(): ShownApps {
  const bySession = new Map<string, Set<string>>();
  return {
    add(sessionId, server) {
      const known = bySession.get(sessionId);
      if (known !== undefined) return void known.add(server);
      bySession.set(sessionId, new Set([server]));
      // An answer may come after its session has ended.
      const [oldest] = bySession.keys();
      if (bySession.size > maxSessions && oldest !== undefined) bySession.delete(oldest);
    },
    list: (sessionId) => bySession.get(sessionId) ?? none,
    forget: (sessionId) => void bySession.delete(sessionId),
  };
}

/**
 * Finds the tool that an MCP App calls by the name that its server gave it. Hosts pass on nothing that identifies the
 * app. If the session was shown apps, the tool belongs to one of their servers. Otherwise it belongs to the only server
 * that has it. `visible` are the lists that the session sees, so a hidden tool is found as little as a missing one. While
 * the list of a server in question is unknown, nothing is found: the call could be meant for that server.
 */
export function findAppTool(
  name: string,
  visible: readonly ServerListing[],
  shown: ReadonlySet<string>,
): RouteTarget | undefined {
  const possible = shown.size === 0 ? visible : visible.filter(({ server }) => shown.has(server.name));
  if (possible.some(({ offer }) => offer === undefined)) return undefined;
  const having = possible.filter(({ offer }) => offer?.tools.some((text) => readName(text) === name));
  if (having.length > 1) throw ambiguousToolError(name, having);
  const [only] = having;
  return only === undefined ? undefined : { server: only.server, name };
}

function readName(text: string): string | undefined {
  const bytes = Buffer.from(text);
  return readStringValue(bytes, findMember(scanEntry(bytes), 'name'));
}

function ambiguousToolError(name: string, having: readonly ServerListing[]): AmbitError {
  const names = having.map(({ server }) => toPublicName(server.name, name));
  return new AmbitError('REQUEST_INVALID', {
    what: `Several servers have a tool "${name.slice(0, 100)}".`,
    hint: `Call it by its full name: ${names.join(', ').slice(0, 500)}.`,
  });
}
