import { AmbitError, isAmbitError } from '../../errors.ts';
import { foldKey, haveTwins, readingIn } from '../../protocol/json/fold-key.ts';
import { elementsAt, type Member, memberOf, rawAt, shapeAt, stringAt } from '../../protocol/json/scan.ts';
import { walkStrings } from '../../protocol/json/walk-strings.ts';
import type { Message } from '../../protocol/message.ts';

/** What MCP calls the members of a tool. */
const toolMembers = new Set([
  ...['name', 'title', 'description', 'inputSchema', 'outputSchema', 'annotations', 'icons', 'execution', '_meta'],
]);

const foldedToolMembers = new Set([...toolMembers].map(foldKey));

/** Asks one server, on behalf of whoever wants to know. `params` is JSON text. */
export type AskServer = (method: string, params: string) => Promise<Message>;

/** What a server offers, each entry as the server wrote it. */
export interface Offer {
  readonly tools: readonly string[];
  /** How many entries among the tools were left out, since readers take them differently. */
  readonly unclearTools?: number;
  readonly prompts: readonly string[];
  readonly templates: readonly string[];
  /** It has more templates than are taken. */
  readonly leftOutTemplates?: boolean;
  /** Resources are the session's own and are never kept; this says whether to ask for them. */
  readonly hasResources: boolean;
  readonly at: number;
}

const maxPages = 50;
const maxEntries = 5000;
/** Each address without the name of a server is compared with them. */
const maxTemplates = 200;
/** Of all pages of a list together. */
const maxBytes = 16 * 1024 * 1024;

export async function fetchOffer(ask: AskServer): Promise<Offer> {
  // One after the other: a server that has just started need not answer four questions at once.
  let unclearTools = 0;
  const tools = await listAll(ask, 'tools/list', 'tools', maxPages, () => unclearTools++);
  const prompts = await listAll(ask, 'prompts/list', 'prompts');
  const templates = await listAll(ask, 'resources/templates/list', 'resourceTemplates');
  // They are not kept: the first page says whether there are any to ask for.
  const resources = await listAll(ask, 'resources/list', 'resources', 1);
  return {
    tools: tools ?? [],
    ...(unclearTools === 0 ? {} : { unclearTools }),
    prompts: prompts ?? [],
    templates: templates?.slice(0, maxTemplates) ?? [],
    leftOutTemplates: (templates?.length ?? 0) > maxTemplates,
    hasResources: resources !== undefined,
    at: Date.now(),
  };
}

/**
 * The objects in all pages of a list, as far as its bounds reach; undefined when the server does not know the method.
 * Anything else in a list is passed over.
 */
export async function listAll(
  ask: AskServer,
  method: string,
  member: string,
  pages = maxPages,
  onUnclear: () => void = () => {},
): Promise<string[] | undefined> {
  const entries: string[] = [];
  let bytes = 0;
  let room = maxBytes;
  let cursor: string | undefined;
  for (let page = 0; page < pages; page++) {
    const answer = await ask(method, JSON.stringify(cursor === undefined ? {} : { cursor }));
    if (answer.error !== undefined) {
      const code = memberOf(answer.error.shape, 'code');
      if (code !== undefined && rawAt(answer.bytes, code) === '-32601') return undefined;
      // The words of the server would read like Ambit's own.
      const number = code === undefined ? '' : ` ${rawAt(answer.bytes, code).slice(0, 20)}`;
      throw new AmbitError('UPSTREAM_FAILED', { what: `${method} was answered with the error${number}.` });
    }
    const list = memberOf(answer.result?.shape, member);
    const spans = list === undefined ? [] : elementsAt(answer.bytes, list, maxEntries - entries.length);
    for (const span of spans) {
      room -= span.end - span.start;
      if (room < 0) return entries;
      const entry = { ...(list as Member), ...span, shape: undefined };
      if (hasUniqueKeys(answer.bytes, entry)) entries.push(rawAt(answer.bytes, span));
      else onUnclear();
    }
    bytes += answer.bytes.length;
    cursor = stringAt(answer.bytes, memberOf(answer.result?.shape, 'nextCursor'));
    if (cursor === undefined || entries.length >= maxEntries || bytes >= maxBytes) return entries;
  }
  return entries;
}

/**
 * Whether an entry is an object with each member once. Of a name that is there twice Ambit would prefix the first, and
 * a client would read the last: the name of another server's tool.
 */
function hasUniqueKeys(bytes: Buffer, entry: Member): boolean {
  const members = shapeAt(bytes, entry)?.members;
  return members !== undefined && !haveTwins(members.map(({ key }) => key));
}

/** Why a server is not in a list, in words. */
export function reasonOf(error: unknown): string {
  return isAmbitError(error) ? `${error.code}: ${error.message}` : 'it failed';
}

/**
 * Whether an entry of a list of tools is the same to every reader: it has a name, no member under a spelling that some
 * reader takes for one of MCP's, and no key twice, however deep. A hash of what `JSON.parse` makes of it then tells all
 * that it says.
 */
export function isSoundTool(text: string): boolean {
  const tool = JSON.parse(text) as unknown;
  if (typeof tool !== 'object' || tool === null || Array.isArray(tool)) return false;
  if (typeof (tool as { readonly name?: unknown }).name !== 'string') return false;
  const isOdd = (key: string) => !toolMembers.has(key) && readingIn(key, foldedToolMembers) !== undefined;
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
