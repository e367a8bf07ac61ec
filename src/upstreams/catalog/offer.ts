import { AmbitError, isAmbitError } from '../../errors.ts';
import { foldKey } from '../../wire/fold-key.ts';
import type { Message } from '../../wire/message.ts';
import { elementsAt, type Member, memberOf, rawAt, shapeAt, stringAt } from '../../wire/scan.ts';

/** Asks one server, on behalf of whoever wants to know. `params` is JSON text. */
export type AskServer = (method: string, params: string) => Promise<Message>;

/** What a server offers, each entry as the server wrote it. */
export interface Offer {
  readonly tools: readonly string[];
  readonly prompts: readonly string[];
  readonly templates: readonly string[];
  /** Resources are the session's own and are never kept; this says whether to ask for them. */
  readonly hasResources: boolean;
  readonly at: number;
}

const mostPages = 50;
const mostEntries = 5000;

export async function fetchOffer(ask: AskServer): Promise<Offer> {
  // One after the other: a server that has just started need not answer four questions at once.
  const tools = await listAll(ask, 'tools/list', 'tools');
  const prompts = await listAll(ask, 'prompts/list', 'prompts');
  const templates = await listAll(ask, 'resources/templates/list', 'resourceTemplates');
  const resources = await listAll(ask, 'resources/list', 'resources');
  return {
    tools: tools ?? [],
    prompts: prompts ?? [],
    templates: templates ?? [],
    hasResources: resources !== undefined,
    at: Date.now(),
  };
}

/** All pages of a list; undefined when the server does not know the method. */
export async function listAll(ask: AskServer, method: string, member: string): Promise<string[] | undefined> {
  const entries: string[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < mostPages; page++) {
    const answer = await ask(method, JSON.stringify(cursor === undefined ? {} : { cursor }));
    if (answer.error !== undefined) {
      const code = memberOf(answer.error.shape, 'code');
      if (code !== undefined && rawAt(answer.bytes, code) === '-32601') return undefined;
      // The words of the server would read like Ambit's own.
      const number = code === undefined ? '' : ` ${rawAt(answer.bytes, code).slice(0, 20)}`;
      throw new AmbitError('UPSTREAM_FAILED', { what: `${method} was answered with the error${number}.` });
    }
    const list = memberOf(answer.result?.shape, member);
    const spans = list === undefined ? [] : elementsAt(answer.bytes, list, mostEntries - entries.length);
    for (const span of spans) {
      const entry = { ...(list as Member), ...span, shape: undefined };
      if (isClear(answer.bytes, entry)) entries.push(rawAt(answer.bytes, span));
    }
    cursor = stringAt(answer.bytes, memberOf(answer.result?.shape, 'nextCursor'));
    if (cursor === undefined || entries.length >= mostEntries) return entries;
  }
  return entries;
}

/**
 * Whether an entry is an object with each member once. Of a name that is there twice Ambit would prefix the first, and
 * a client would read the last: the name of another server's tool.
 */
function isClear(bytes: Buffer, entry: Member): boolean {
  const members = shapeAt(bytes, entry)?.members;
  return members !== undefined && new Set(members.map(({ key }) => foldKey(key))).size === members.length;
}

/** Why a server is not in a list, in words. */
export function reasonOf(error: unknown): string {
  return isAmbitError(error) ? `${error.code}: ${error.message}` : 'it failed';
}
