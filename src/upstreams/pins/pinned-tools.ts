import { AmbitError } from '../../errors.ts';
import { sha256Hex, toCanonicalJson } from '../../lib/json/canonical-json.ts';
import type { Journal } from '../../observability/journal/journal.ts';
import type { Log } from '../../observability/log/log.ts';
import type { PinnedToolFilter } from '../catalog/catalog.ts';
import { isUnambiguousTool, type Offer } from '../catalog/offer.ts';
import type { ServerDefinition } from '../definition.ts';
import type { Approvals } from './approvals.ts';

/** Hashes of a server's tools, by tool and then by member: enough to tell what changed, never what it said. */
export type ToolPins = Readonly<Record<string, Readonly<Record<string, string>>>>;

/** The pin of a name that is listed twice covers all its tools: a model may read any of them. */
const repeated = '(listed more than once)';

/** A tool with too many members is pinned as a whole; MCP defines about ten. */
const whole = '(all its members)';

const maxMembers = 32;

const maxTools = 2000;

const maxCharacters = 2 * 1024 * 1024;

const maxNamed = 20;
const maxNameLength = 100;
const nameless = '(without one name)';

/**
 * Pins the tools of an approved server when they are first listed. Tools that change later are withheld until they are
 * approved: a description is text that a model follows.
 */
export interface PinnedTools {
  readonly filter: PinnedToolFilter;
  /** True, once, for a change of the approvals that comes from these pins. */
  wasPinnedHere(server: string): boolean;
}

interface CheckedTools {
  /** The tools that all readers understand the same. */
  readonly tools: readonly string[];
  readonly pins: ToolPins;
  /** The names of the other tools. */
  readonly unsound: readonly string[];
}

export function createPinnedTools(approvals: Approvals, journal: Journal, log: Log): PinnedTools {
  const reported = new WeakMap<Offer, string>();
  const pinned = new Set<string>();
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
  async function pin(server: ServerDefinition, pins: ToolPins): Promise<string | undefined> {
    if (approvals.hasPinnedTools(server.name)) return undefined;
    pinned.add(server.name);
    try {
      await approvals.pinTools(server, pins);
      return undefined;
    } catch (error) {
      pinned.delete(server.name);
      if (error instanceof AmbitError && error.code === 'SERVER_NOT_APPROVED') return error.message;
      throw error;
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

  const filter: PinnedToolFilter = async (server, offer) => {
    if (offer.leftOutTemplates === true) warnLeftOut(server);
    if (server.source === 'operator') return { tools: offer.tools, withheld: [] };
    const { tools: sound, pins, unsound } = checkOffer(offer);
    const refusal = await pin(server, pins);
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

function checkTools(offer: Offer): CheckedTools {
  const sound = offer.tools.filter(isUnambiguousTool);
  const pins = createToolPins(sound.map((text) => JSON.parse(text) as unknown));
  const { unclearTools = 0 } = offer;
  if (sound.length === offer.tools.length && unclearTools === 0) return { tools: offer.tools, pins, unsound: [] };
  const kept = new Set(sound);
  const names = offer.tools.filter((text) => !kept.has(text)).map(readName);
  const unsound = names.map((name) => (typeof name === 'string' ? name : nameless));
  return { tools: sound, pins, unsound: [...unsound, ...Array<string>(unclearTools).fill(nameless)] };
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
      if (listed.length > 1) return [name, { [repeated]: sha256Hex(toCanonicalJson(listed)) }];
      const members = Object.entries(listed[0] as object).filter(
        ([key, value]) => key !== 'name' && value !== undefined,
      );
      if (members.length > maxMembers) return [name, { [whole]: sha256Hex(toCanonicalJson(listed[0])) }];
      return [name, Object.fromEntries(members.map(([key, value]) => [key, sha256Hex(toCanonicalJson(value))]))];
    }),
  );
}
