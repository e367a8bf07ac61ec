import { canonicalJson, sha256 } from '../canonical-json.ts';

/** Hashes of a server's tools, by tool and then by member: enough to tell what changed, never what it said. */
export type ToolPins = Readonly<Record<string, Readonly<Record<string, string>>>>;

/** A name that comes twice is pinned by all that is said under it: a model may read any of them. */
const repeated = '(listed more than once)';

/** The pins of a whole `tools/list`, all pages together. */
export function pinsOf(tools: readonly unknown[]): ToolPins {
  const byName = new Map<string, unknown[]>();
  for (const tool of tools) {
    const name = (tool as { name?: unknown } | null)?.name;
    if (typeof name !== 'string') continue;
    const listed = byName.get(name);
    if (listed === undefined) byName.set(name, [tool]);
    else listed.push(tool);
  }
  return Object.fromEntries(
    [...byName].map(([name, listed]) => {
      if (listed.length > 1) return [name, { [repeated]: sha256(canonicalJson(listed)) }];
      const members = Object.entries(listed[0] as object).filter(
        ([key, value]) => key !== 'name' && value !== undefined,
      );
      return [name, Object.fromEntries(members.map(([key, value]) => [key, sha256(canonicalJson(value))]))];
    }),
  );
}
