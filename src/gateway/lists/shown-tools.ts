import { applyEdits, type Edit, replaceValue } from '../../protocol/json/edit.ts';
import { elementsAt, memberOf, rawAt, type Shape, scanEntry, stringAt } from '../../protocol/json/scan.ts';
import { readMessage } from '../../protocol/message.ts';

/** How a session is shown the tools of a server. Undefined where nothing of it differs from what the server says. */
export interface ToolView {
  readonly shown: ((tool: string) => boolean) | undefined;
  /** The tool of our own to be used in place of one. */
  readonly replaced: ((tool: string) => string | undefined) | undefined;
}

/** The same answer to `tools/list`, with only these tools in it; what has no name cannot be called and goes too. */
export function withToolsShown(bytes: Buffer, view: ToolView): Buffer {
  const { result } = readMessage(bytes);
  const list = memberOf(result?.shape, 'tools');
  if (list === undefined) return bytes;
  const texts = elementsAt(bytes, list).map((span) => rawAt(bytes, span));
  const seen = seenThrough(view, texts);
  const same = seen.length === texts.length && seen.every((text, index) => text === texts[index]);
  const edits = same ? [] : [replaceValue(list, `[${seen.join(',')}]`)];
  // The list is this session's own, whatever the server said of its own.
  const scope = memberOf(result?.shape, 'cacheScope');
  if (scope !== undefined) edits.push(replaceValue(scope, '"private"'));
  return edits.length === 0 ? bytes : applyEdits(bytes, edits);
}

/** Tools as JSON texts, those left out that are not shown, those described that have a better one beside them. */
export function seenThrough({ shown, replaced }: ToolView, texts: readonly string[]): readonly string[] {
  if (shown === undefined && replaced === undefined) return texts;
  return texts.flatMap((text) => {
    const bytes = Buffer.from(text);
    const shape = scanEntry(bytes);
    const name = stringAt(bytes, memberOf(shape, 'name'));
    if (shape === undefined || name === undefined || shown?.(name) === false) return [];
    const better = replaced?.(name);
    return [better === undefined ? text : pointing(bytes, shape, better)];
  });
}

/** First in the description, where a model reads it before it has chosen. */
function pointing(bytes: Buffer, shape: Shape, better: string): string {
  const advice = `Use ${better} instead: it works in the workspace of the session.`;
  const member = memberOf(shape, 'description');
  const said = stringAt(bytes, member);
  const edit: Edit =
    member === undefined
      ? { start: 1, end: 1, text: `"description":${JSON.stringify(advice)},` }
      : replaceValue(member, JSON.stringify(said === undefined ? advice : `${advice} ${said}`));
  return applyEdits(bytes, [edit]).toString();
}
