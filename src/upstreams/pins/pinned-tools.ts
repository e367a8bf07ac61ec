import { AmbitError } from '../../errors.ts';
import { canonicalJson, sha256 } from '../../lib/json/canonical-json.ts';
import type { Journal } from '../../observability/journal/journal.ts';
import type { Log } from '../../observability/log/log.ts';
import type { Vet } from '../catalog/catalog.ts';
import { isSoundTool, type Offer } from '../catalog/offer.ts';
import type { ServerDefinition } from '../definition.ts';
import type { Approvals } from './approvals.ts';

/** Hashes of a server's tools, by tool and then by member: enough to tell what changed, never what it said. */
export type ToolPins = Readonly<Record<string, Readonly<Record<string, string>>>>;

/** A name that comes twice is pinned by all that is said under it: a model may read any of them. */
const repeated = '(listed more than once)';

/** MCP knows about ten members of a tool. One that has many more is pinned as a whole. */
const whole = '(all its members)';

const mostMembers = 32;

const mostTools = 2000;

const mostCharacters = 2 * 1024 * 1024;

const mostNamed = 20;
const longestName = 100;
const nameless = '(without one name)';

/**
 * Tools of a server that had to be approved are pinned when they are first listed. What differs afterwards is
 * withheld until someone approves it: a description is text that a model obeys.
 */
export interface Vetting {
  readonly vet: Vet;
  /** True, once, for a change of the approvals that is only what we have pinned ourselves. */
  pinnedJustNow(server: string): boolean;
}

interface Vetted {
  /** The entries that are the same to every reader. */
  readonly tools: readonly string[];
  readonly pins: ToolPins;
  /** What the others are called, as far as they have a name. */
  readonly unsound: readonly string[];
}

export function createVetting(approvals: Approvals, journal: Journal, log: Log): Vetting {
  const told = new WeakMap<Offer, string>();
  const pinned = new Set<string>();
  /** By the name of the server. */
  const leftOut = new Map<string, string>();
  const known = new WeakMap<Offer, Vetted>();

  /** An offer is looked at again and again; what it says stays the same. */
  function lookInto(offer: Offer): Vetted {
    const vetted = known.get(offer) ?? vettedFrom(offer);
    known.set(offer, vetted);
    return vetted;
  }

  /** Why they cannot be pinned; undefined when they are. */
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

  /** Once for each offer, as long as it is the same that is withheld. */
  function isNews(offer: Offer, names: string): boolean {
    const isNew = told.get(offer) !== names;
    told.set(offer, names);
    return isNew;
  }

  /** Once for each description of a server, however often it says that its lists have changed. */
  function noteLeftOut({ name, definitionHash }: ServerDefinition): void {
    if (leftOut.get(name) === definitionHash) return;
    leftOut.set(name, definitionHash);
    log.warn('resource templates are left out', { server: name });
  }

  const vet: Vet = async (server, offer) => {
    if (offer.leftOutTemplates === true) noteLeftOut(server);
    if (server.source === 'operator') return { tools: offer.tools, withheld: [] };
    const { tools: sound, pins, unsound } = lookInto(offer);
    const refusal = await pin(server, pins);
    if (refusal !== undefined) {
      const withheld = [...Object.keys(pins), ...unsound];
      const tools = shortList(withheld);
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
    const names = shortList(withheld);
    if (withheld.length > 0 && isNews(offer, names)) tellWithheld(server.name, changed, unsound, names);
    if (changed.length === 0) return { tools: sound, withheld };
    const hidden = new Set<unknown>(changed);
    return { tools: sound.filter((text) => !hidden.has(nameIn(text))), withheld };
  };

  function tellWithheld(server: string, changed: readonly string[], unsound: readonly string[], names: string): void {
    if (changed.length > 0) {
      log.warn('tools changed since approval and are withheld', {
        server,
        tools: shortList(changed),
        hint: `look at them with "ambit server check ${server}", approve with "ambit server approve ${server}"`,
      });
    }
    if (unsound.length > 0) {
      log.warn('tools that readers take differently are withheld', {
        server,
        tools: shortList(unsound),
        hint: 'a tool needs one name, members spelled as in MCP, and no key twice',
      });
    }
    journal.record({ kind: 'gateway', event: 'tools-withheld', server, tools: names });
  }

  return { vet, pinnedJustNow: (server) => pinned.delete(server) };
}

function vettedFrom(offer: Offer): Vetted {
  const sound = offer.tools.filter(isSoundTool);
  const pins = pinsOf(sound.map((text) => JSON.parse(text) as unknown));
  const { unclearTools = 0 } = offer;
  if (sound.length === offer.tools.length && unclearTools === 0) return { tools: offer.tools, pins, unsound: [] };
  const kept = new Set(sound);
  const names = offer.tools.filter((text) => !kept.has(text)).map(nameIn);
  const unsound = names.map((name) => (typeof name === 'string' ? name : nameless));
  return { tools: sound, pins, unsound: [...unsound, ...Array<string>(unclearTools).fill(nameless)] };
}

function nameIn(text: string): unknown {
  return (JSON.parse(text) as { readonly name?: unknown } | null)?.name;
}

/** A server decides how many names there are, and how long they are. */
function shortList(names: readonly string[]): string {
  const shown = names.slice(0, mostNamed).map((name) => name.slice(0, longestName));
  const more = names.length - shown.length;
  return more === 0 ? shown.join(', ') : `${shown.join(', ')} and ${more} more`;
}

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
