import { canonicalJson, sha256 } from '../../lib/json/canonical-json.ts';

/** Hashes of a server's tools, by tool and then by member: enough to tell what changed, never what it said. */
export type ToolPins = Readonly<Record<string, Readonly<Record<string, string>>>>;

/** A name that comes twice is pinned by all that is said under it: a model may read any of them. */
const repeated = '(listed more than once)';
/** MCP knows about ten members of a tool. One that has many more is pinned as a whole. */
const whole = '(all its members)';
const mostMembers = 32;

const mostTools = 2000;
const mostCharacters = 2 * 1024 * 1024;

/** Why these pins are not written down; undefined when they can be. All servers share one file, which is read whole. */
export function refusalOfPins(pins: ToolPins): string | undefined {
  const count = Object.keys(pins).length;
  if (count > mostTools) return `it lists ${count} tools, and ${mostTools} can be approved`;
  const isTooLong = JSON.stringify(pins, undefined, 1).length > mostCharacters;
  return isTooLong ? `the names in its tools take more than ${mostCharacters >> 20} MB` : undefined;
}

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
      if (members.length > mostMembers) return [name, { [whole]: sha256(canonicalJson(listed[0])) }];
      return [name, Object.fromEntries(members.map(([key, value]) => [key, sha256(canonicalJson(value))]))];
    }),
  );
}
