import { AmbitError, isAmbitError } from '../../errors.ts';
import { withTimeout } from '../../lib/async/timeout.ts';
import type { Era } from '../../protocol/channel.ts';
import { findReading, foldKey, hasTwinKeys } from '../../protocol/json/fold-key.ts';
import { walkStrings } from '../../protocol/json/json-strings.ts';
import {
  findMember,
  type JsonMember,
  readElements,
  readRawValue,
  readShape,
  readStringValue,
} from '../../protocol/json/scan.ts';
import { type Message, readErrorCode } from '../../protocol/message.ts';
import { tasksExtension } from '../../protocol/modern-envelope.ts';

/** The members of a tool in MCP. */
const toolMembers = new Set([
  ...['name', 'title', 'description', 'inputSchema', 'outputSchema', 'annotations', 'icons', 'execution', '_meta'],
]);

const foldedToolMembers = new Set([...toolMembers].map(foldKey));

/** Asks one server. `params` is JSON text. */
export type AskServer = (method: string, params: string) => Promise<Message>;

/** Opens a way to ask a server as a client with these capabilities, which are JSON text. `close` ends it. */
export type OpenAskAs = (capabilities: string) => { readonly ask: AskServer; close(): void };

/** The tools, prompts and templates of a server, each entry as the server wrote it. */
export interface Offer {
  readonly tools: readonly string[];
  /** The number of tools that were left out because readers would understand them differently. */
  readonly unclearTools?: number;
  readonly prompts: readonly string[];
  readonly templates: readonly string[];
  /** True when the server has more templates than are kept. */
  readonly leftOutTemplates?: boolean;
  /** True when the server has resources. They belong to the session and are never kept. */
  readonly hasResources: boolean;
  /** The extensions that the server declares, with their settings. */
  readonly extensions?: Readonly<Record<string, unknown>>;
  /** Whether clients of this era can use tasks of the server; undefined if the server did not say. */
  readonly hasTasks?: boolean;
  readonly at: number;
}

const maxPages = 50;
const maxEntries = 5000;
/** Each address without a server name is compared with all templates. */
const maxTemplates = 200;
/** The size of all pages of a list together. */
const maxBytes = 16 * 1024 * 1024;
const maxExtensionsBytes = 64 * 1024;
/** The lists are there already, so they do not wait longer for the capabilities. */
const capabilitiesMs = 1000;

export async function fetchOffer(ask: AskServer, era: Era): Promise<Offer> {
  // One by one: a server that has just started should not get four requests at once.
  let unclearTools = 0;
  const tools = await fetchList(ask, 'tools/list', 'tools', maxPages, () => unclearTools++);
  const prompts = await fetchList(ask, 'prompts/list', 'prompts');
  const templates = await fetchList(ask, 'resources/templates/list', 'resourceTemplates');
  // The first page shows whether there are resources.
  const resources = await fetchList(ask, 'resources/list', 'resources', 1);
  const declared = await withTimeout(fetchDeclared(ask, era), capabilitiesMs).catch(() => ({}));
  return {
    tools: tools ?? [],
    ...(unclearTools === 0 ? {} : { unclearTools }),
    prompts: prompts ?? [],
    templates: templates?.slice(0, maxTemplates) ?? [],
    leftOutTemplates: (templates?.length ?? 0) > maxTemplates,
    hasResources: resources !== undefined,
    ...declared,
    at: Date.now(),
  };
}

/** Asks a server for its extensions, and whether it has tasks. */
async function fetchDeclared(ask: AskServer, era: Era): Promise<Pick<Offer, 'extensions' | 'hasTasks'>> {
  const { bytes, result } = await ask('server/discover', '{}');
  if (result === undefined) return {};
  const member = findMember(result.shape, 'capabilities');
  const capabilities = member && readShape(bytes, member);
  const declared = findMember(capabilities, 'extensions');
  const shape = declared && readShape(bytes, declared);
  const tasks = era === 'modern' ? findMember(shape, tasksExtension) : findMember(capabilities, 'tasks');
  const hasTasks = tasks !== undefined;
  const isShort = declared !== undefined && declared.end - declared.start <= maxExtensionsBytes;
  if (!isShort || shape === undefined || shape.members.length === 0) return { hasTasks };
  return { hasTasks, extensions: JSON.parse(readRawValue(bytes, declared)) as Record<string, unknown> };
}

/**
 * Fetches the objects in all pages of a list, up to the limits; undefined when the server does not know the method. Other
 * values in a list are skipped.
 */
export async function fetchList(
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
      const code = readErrorCode(answer);
      if (code === '-32601') return undefined;
      // The text of the server would read like Ambit's own.
      const number = code === undefined ? '' : ` ${code.slice(0, 20)}`;
      throw new AmbitError('UPSTREAM_FAILED', { what: `${method} was answered with the error${number}.` });
    }
    const list = findMember(answer.result?.shape, member);
    const spans = list === undefined ? [] : readElements(answer.bytes, list, maxEntries - entries.length);
    for (const span of spans) {
      room -= span.end - span.start;
      if (room < 0) return entries;
      const entry = { ...(list as JsonMember), ...span, shape: undefined };
      if (hasUniqueKeys(answer.bytes, entry)) entries.push(readRawValue(answer.bytes, span));
      else onUnclear();
    }
    bytes += answer.bytes.length;
    cursor = readStringValue(answer.bytes, findMember(answer.result?.shape, 'nextCursor'));
    if (cursor === undefined || entries.length >= maxEntries || bytes >= maxBytes) return entries;
  }
  return entries;
}

/**
 * True for an object with each member once. If a name were there twice, Ambit would prefix the first one and a client
 * could read the last: the name of another server's tool.
 */
function hasUniqueKeys(bytes: Buffer, entry: JsonMember): boolean {
  const members = readShape(bytes, entry)?.members;
  return members !== undefined && !hasTwinKeys(members.map(({ key }) => key));
}

/** Describes why a server is not in a list. */
export function describeFailure(error: unknown): string {
  return isAmbitError(error) ? `${error.code}: ${error.message}` : 'it failed';
}

/**
 * True for a tool that all readers understand the same: it has a name, no odd spelling of an MCP member, and no key twice
 * at any depth. Only then does a hash of the parsed tool cover its whole text.
 */
export function isUnambiguousTool(text: string): boolean {
  const tool = JSON.parse(text) as unknown;
  if (typeof tool !== 'object' || tool === null || Array.isArray(tool)) return false;
  if (typeof (tool as { readonly name?: unknown }).name !== 'string') return false;
  const isOdd = (key: string) => !toolMembers.has(key) && findReading(key, foldedToolMembers) !== undefined;
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

/** Counts the keys of a parsed value, where a repeated key counts once. */
function countKeys(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0;
  const inside = Object.values(value);
  return inside.reduce<number>((sum, each) => sum + countKeys(each), Array.isArray(value) ? 0 : inside.length);
}
