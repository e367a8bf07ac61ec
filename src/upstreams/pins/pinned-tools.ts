import { AmbitError } from '../../errors.ts';
import { withTimeout } from '../../lib/async/timeout.ts';
import { sha256Hex, toCanonicalJson } from '../../lib/json/canonical-json.ts';
import type { Journal } from '../../observability/journal/journal.ts';
import type { Log } from '../../observability/log/log.ts';
import type { PinnedToolFilter } from '../catalog/catalog.ts';
import { describeFailure, fetchList, isUnambiguousTool, type Offer, type OpenAskAs } from '../catalog/offer.ts';
import type { ServerDefinition } from '../definition.ts';
import { createWidestCapabilities } from '../links/handshake.ts';
import type { Approvals } from './approvals.ts';

/** The hashes of one definition of a tool, by member: enough to tell what changed, never what it said. */
export type ToolPin = Readonly<Record<string, string>>;

/** The pins of a server's tools. A tool has several where clients with other capabilities get another definition. */
export type ToolPins = Readonly<Record<string, ToolPin | readonly ToolPin[]>>;

/** The pin of a name that is listed twice covers all its tools: a model may read any of them. */
const repeated = '(listed more than once)';

/** A tool with too many members is pinned as a whole; MCP defines about ten. */
const whole = '(all its members)';

const maxMembers = 32;

const maxTools = 2000;

/** The time for listing the tools of other clients. The first client waits for it, after up to 4 s for its own list. */
const otherClientsMs = 4000;

const maxCharacters = 2 * 1024 * 1024;

const maxNamed = 20;
const maxNameLength = 100;
const nameless = '(without one name)';

/**
 * Pins the tools of an approved server when they are first listed: those of the client that asks, of one without any
 * capability, and of one with all. Nothing is added later, since an agent chooses the capabilities of its client. Tools that change later are withheld until they are
 * approved: a description is text that a model follows.
 */
export interface PinnedTools {
  readonly filter: PinnedToolFilter;
  /** True, once, for a change of the approvals that comes from these pins. */
  wasPinnedHere(server: string): boolean;
}

type PinQuery = Parameters<PinnedToolFilter>[2];

export interface CheckedTools {
  /** The tools that all readers understand the same. */
  readonly tools: readonly string[];
  readonly pins: ToolPins;
  /** The names of the other tools. */
  readonly unsound: readonly string[];
}

export function createPinnedTools(approvals: Approvals, journal: Journal, log: Log): PinnedTools {
  const reported = new WeakMap<Offer, string>();
  const pinned = new Set<string>();
  /** The listings for other clients that are under way, by name and definition of the server. */
  const listing = new Map<string, Promise<unknown[][]>>();
  const listed = new WeakMap<Offer, Promise<unknown[][]>>();
  /** The definition hashes of servers whose templates were left out, by name. */
  const leftOut = new Map<string, string>();
  const known = new WeakMap<Offer, CheckedTools>();

  /** Checks an offer once: it is used often and never changes. */
  function checkOffer(offer: Offer): CheckedTools {
    const checked = known.get(offer) ?? checkTools(offer);
    known.set(offer, checked);
    return checked;
  }

  /** Pins the tools; returns the reason when that is impossible. */
  async function pin(server: ServerDefinition, offer: Offer, query: PinQuery): Promise<string | undefined> {
    if (approvals.hasPinnedTools(server.name)) return undefined;
    const { pins: own, tools } = checkOffer(offer);
    const others = findPinProblem(own) === undefined ? await listForOtherClients(server, offer, query) : [];
    const all = mergeToolPins([own, ...others.map(createToolPins)]);
    // A list that was made with the credentials of a user may repeat them.
    const texts = query.owner?.hasCredentials ? undefined : createToolTexts([tools.map(parse), ...others]);
    pinned.add(server.name);
    try {
      await approvals.pinTools(server, findPinProblem(all) === undefined ? all : own, { replace: false, texts });
      listed.delete(offer);
      return undefined;
    } catch (error) {
      pinned.delete(server.name);
      if (error instanceof AmbitError && error.code === 'SERVER_NOT_APPROVED') return error.message;
      throw error;
    }
  }

  /**
   * Lists the tools once for each offer, however many clients ask together: it may start processes. Tools that cannot be
   * listed are not pinned.
   */
  function listForOtherClients(server: ServerDefinition, offer: Offer, query: PinQuery): Promise<unknown[][]> {
    const { name, definitionHash } = server;
    const { askAs } = query;
    const key = `${name} ${definitionHash}`;
    const known = listed.get(offer) ?? listing.get(key);
    if (known !== undefined || askAs === undefined) return known ?? Promise.resolve([]);
    const others = ['{}', createWidestCapabilities(server.push)].filter((each) => each !== query.capabilities);
    const asked = Promise.all(others.map((capabilities) => listAsClient(name, askAs, capabilities)));
    const found = asked.then((lists) => lists.flat()).finally(() => listing.delete(key));
    listing.set(key, found);
    listed.set(offer, found);
    return found;
  }

  async function listAsClient(server: string, askAs: OpenAskAs, capabilities: string): Promise<unknown[][]> {
    let way: ReturnType<OpenAskAs> | undefined;
    try {
      way = askAs(capabilities);
      const tools = await withTimeout(fetchList(way.ask, 'tools/list', 'tools'), otherClientsMs);
      return [(tools ?? []).filter(isUnambiguousTool).map(parse)];
    } catch (error) {
      log.warn('tools for other clients not listed', {
        server,
        reason: describeFailure(error),
        hint: `they are withheld; approve them with "ambit server approve ${server}"`,
      });
      return [];
    } finally {
      way?.close();
    }
  }

  /** True once for each offer, as long as the same tools are withheld. */
  function isNews(offer: Offer, names: string): boolean {
    const isNew = reported.get(offer) !== names;
    reported.set(offer, names);
    return isNew;
  }

  /** Warns once for each definition of a server, however often its lists change. */
  function warnLeftOut({ name, definitionHash }: ServerDefinition): void {
    if (leftOut.get(name) === definitionHash) return;
    leftOut.set(name, definitionHash);
    log.warn('resource templates are left out', { server: name });
  }

  const filter: PinnedToolFilter = async (server, offer, query) => {
    if (offer.leftOutTemplates === true) warnLeftOut(server);
    if (server.source === 'operator') return { tools: offer.tools, withheld: [] };
    const { tools: sound, pins, unsound } = checkOffer(offer);
    const refusal = await pin(server, offer, query);
    if (refusal !== undefined) {
      const withheld = [...Object.keys(pins), ...unsound];
      const tools = joinShort(withheld);
      if (isNews(offer, tools)) {
        log.warn('tools cannot be pinned and are withheld', { server: server.name, reason: refusal });
        journal.record({ kind: 'gateway', event: 'tools-withheld', server: server.name, tools });
      }
      return { tools: [], withheld };
    }
    const changed = approvals
      .toolsChanged(server, pins)
      .filter(({ kind }) => kind !== 'removed')
      .map(({ tool }) => tool);
    const withheld = [...changed, ...unsound];
    const names = joinShort(withheld);
    if (withheld.length > 0 && isNews(offer, names)) reportWithheld(server.name, changed, unsound, names);
    if (changed.length === 0) return { tools: sound, withheld };
    const hidden = new Set<unknown>(changed);
    return { tools: sound.filter((text) => !hidden.has(readName(text))), withheld };
  };

  function reportWithheld(server: string, changed: readonly string[], unsound: readonly string[], names: string): void {
    if (changed.length > 0) {
      log.warn('tools changed since approval and are withheld', {
        server,
        tools: joinShort(changed),
        hint: `review them with "ambit server check ${server}", approve them with "ambit server approve ${server}"`,
      });
    }
    if (unsound.length > 0) {
      log.warn('ambiguous tools are withheld', {
        server,
        tools: joinShort(unsound),
        hint: 'a tool needs exactly one name, members spelled as in MCP, and no duplicate keys',
      });
    }
    journal.record({ kind: 'gateway', event: 'tools-withheld', server, tools: names });
  }

  return { filter, wasPinnedHere: (server) => pinned.delete(server) };
}

/** Separates the tools of an offer that all readers understand the same from the others. */
export function checkTools(offer: Offer): CheckedTools {
  const sound = offer.tools.filter(isUnambiguousTool);
  const pins = createToolPins(sound.map(parse));
  const { unclearTools = 0 } = offer;
  if (sound.length === offer.tools.length && unclearTools === 0) return { tools: offer.tools, pins, unsound: [] };
  const kept = new Set(sound);
  const names = offer.tools.filter((text) => !kept.has(text)).map(readName);
  const unsound = names.map((name) => (typeof name === 'string' ? name : nameless));
  return { tools: sound, pins, unsound: [...unsound, ...Array<string>(unclearTools).fill(nameless)] };
}

function parse(text: string): unknown {
  return JSON.parse(text);
}

function readName(text: string): unknown {
  return (JSON.parse(text) as { readonly name?: unknown } | null)?.name;
}

/** Joins names up to a limit: a server decides how many there are and how long they are. */
function joinShort(names: readonly string[]): string {
  const shown = names.slice(0, maxNamed).map((name) => name.slice(0, maxNameLength));
  const more = names.length - shown.length;
  return more === 0 ? shown.join(', ') : `${shown.join(', ')} and ${more} more`;
}

/** Finds the reason why pins cannot be stored; undefined when they can. All servers share one file. */
export function findPinProblem(pins: ToolPins): string | undefined {
  const count = Object.keys(pins).length;
  if (count > maxTools) return `it lists ${count} tools, and ${maxTools} can be approved`;
  const isTooLong = JSON.stringify(pins, undefined, 1).length > maxCharacters;
  return isTooLong ? `the names in its tools take more than ${maxCharacters >> 20} MB` : undefined;
}

/** The pins of a whole `tools/list`, all pages together. */
export function createToolPins(tools: readonly unknown[]): ToolPins {
  return Object.fromEntries(
    [...readMembers(tools)].map(([name, members]) => [
      name,
      Object.fromEntries(members.map(([member, text]) => [member, sha256Hex(text)])),
    ]),
  );
}

/** The texts behind the hashes of pins, by the name of the tool. */
export type ToolTexts = ReadonlyMap<string, readonly { readonly hash: string; readonly text: string }[]>;

export interface PinOptions {
  /** Whether existing pins are replaced. */
  readonly replace: boolean;
  /** The texts of these pins, to be kept for the next review. */
  readonly texts?: ToolTexts | undefined;
}

/** The members that a model or a person reads come first. */
const memberOrder = ['description', 'inputSchema', 'annotations', 'outputSchema', 'title'];

export function rankMember(member: string): number {
  const at = memberOrder.indexOf(member);
  return at === -1 ? memberOrder.length : at;
}

/** The texts of several listings of a server. The most important member of each tool comes first. */
export function createToolTexts(listings: readonly (readonly unknown[])[]): ToolTexts {
  const texts = new Map<string, Map<string, string>>();
  for (const [name, members] of listings.flatMap((tools) => [...readMembers(tools)])) {
    const known = texts.get(name) ?? new Map<string, string>();
    texts.set(name, known);
    for (const [, text] of members.sort(([a], [b]) => rankMember(a) - rankMember(b))) known.set(sha256Hex(text), text);
  }
  return new Map([...texts].map(([name, known]) => [name, [...known].map(([hash, text]) => ({ hash, text }))]));
}

/** Reads the members of tools as canonical JSON, as each of them is pinned. */
function readMembers(tools: readonly unknown[]): Map<string, (readonly [member: string, text: string])[]> {
  const byName = new Map<string, unknown[]>();
  for (const tool of tools) {
    const name = (tool as { name?: unknown } | null)?.name;
    if (typeof name !== 'string') continue;
    const listed = byName.get(name);
    if (listed === undefined) byName.set(name, [tool]);
    else listed.push(tool);
  }
  return new Map(
    [...byName].map(([name, listed]) => {
      if (listed.length > 1) return [name, [[repeated, toCanonicalJson(listed)]]];
      const members = Object.entries(listed[0] as object).filter(
        ([key, value]) => key !== 'name' && value !== undefined,
      );
      if (members.length > maxMembers) return [name, [[whole, toCanonicalJson(listed[0])]]];
      return [name, members.map(([key, value]) => [key, toCanonicalJson(value)])];
    }),
  );
}

/** Merges the pins of several listings. A tool that differs between them has a pin for each definition. */
export function mergeToolPins(listings: readonly ToolPins[]): ToolPins {
  const merged = new Map<string, Map<string, ToolPin>>();
  for (const [name, pins] of listings.flatMap((each) => Object.entries(each))) {
    const variants = merged.get(name) ?? new Map<string, ToolPin>();
    merged.set(name, variants);
    for (const pin of listVariants(pins)) variants.set(toCanonicalJson(pin), pin);
  }
  return Object.fromEntries(
    [...merged].map(([name, variants]) => {
      const [first, ...more] = variants.values();
      return [name, first === undefined || more.length > 0 ? [...variants.values()] : first];
    }),
  );
}

/** The definitions that a pin allows, each with its own hashes. */
export function listVariants(pins: ToolPin | readonly ToolPin[]): readonly ToolPin[] {
  return Array.isArray(pins) ? pins : [pins as ToolPin];
}
