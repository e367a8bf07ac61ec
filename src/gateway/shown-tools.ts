import { applyEdits, replaceValue } from '../wire/edit.ts';
import { readMessage } from '../wire/message.ts';
import { elementsAt, memberOf, rawAt, scanObject, stringAt } from '../wire/scan.ts';

/** The same answer to `tools/list`, with only these tools in it; what has no name cannot be called and goes too. */
export function withToolsShown(bytes: Buffer, shown: (tool: string) => boolean): Buffer {
  const { result } = readMessage(bytes);
  const list = memberOf(result?.shape, 'tools');
  if (list === undefined) return bytes;
  const texts = elementsAt(bytes, list).map((span) => rawAt(bytes, span));
  const kept = texts.filter((text) => isShown(text, shown));
  const edits = kept.length === texts.length ? [] : [replaceValue(list, `[${kept.join(',')}]`)];
  // The list is this session's own, whatever the server said of its own.
  const scope = memberOf(result?.shape, 'cacheScope');
  if (scope !== undefined) edits.push(replaceValue(scope, '"private"'));
  return edits.length === 0 ? bytes : applyEdits(bytes, edits);
}

export function isShown(text: string, shown: (tool: string) => boolean): boolean {
  if (text[0] !== '{') return false;
  const bytes = Buffer.from(text);
  const name = stringAt(bytes, memberOf(scanObject(bytes), 'name'));
  return name !== undefined && shown(name);
}
