import { foldKey, readingIn } from '../../protocol/json/fold-key.ts';
import { walkStrings } from '../../protocol/json/walk-strings.ts';

/** What MCP calls the members of a tool. */
const members = new Set([
  ...['name', 'title', 'description', 'inputSchema', 'outputSchema', 'annotations', 'icons', 'execution', '_meta'],
]);
const folded = new Set([...members].map(foldKey));

/**
 * Whether an entry of a list of tools is the same to every reader: it has a name, no member under a spelling that some
 * reader takes for one of MCP's, and no key twice, however deep. A hash of what `JSON.parse` makes of it then tells all
 * that it says.
 */
export function isSoundTool(text: string): boolean {
  const tool = JSON.parse(text) as unknown;
  if (typeof tool !== 'object' || tool === null || Array.isArray(tool)) return false;
  if (typeof (tool as { readonly name?: unknown }).name !== 'string') return false;
  const isOdd = (key: string) => !members.has(key) && readingIn(key, folded) !== undefined;
  return !Object.keys(tool).some(isOdd) && countWrittenKeys(text) === countKeys(tool);
}

function countWrittenKeys(text: string): number {
  const bytes = Buffer.from(text);
  let count = 0;
  walkStrings(bytes, 0, bytes.length, (_start, _end, _keys, isKey) => {
    if (isKey) count++;
  });
  return count;
}

/** Of a key that was written twice, one is left here. */
function countKeys(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0;
  const inside = Object.values(value);
  return inside.reduce<number>((sum, each) => sum + countKeys(each), Array.isArray(value) ? 0 : inside.length);
}
