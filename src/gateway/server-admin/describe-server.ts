import { describeRestrictions, type ToolRestrictions } from '../../config/load/describe-config.ts';
import type { Config } from '../../config/schema/schema.ts';
import { sha256Hex, toCanonicalJson } from '../../lib/json/canonical-json.ts';
import { escapeControls } from '../../lib/text/escape-controls.ts';
import { formatUnifiedDiff } from '../../lib/text/line-diff.ts';
import { scrubSecrets } from '../../observability/log/scrub.ts';
import type { LoginAdmin } from '../../upstreams/auth/login-admin.ts';
import type { CachedOffer } from '../../upstreams/catalog/catalog-file.ts';
import type { ServerDefinition } from '../../upstreams/definition.ts';
import type { Approvals } from '../../upstreams/pins/approvals.ts';
import { createToolDiffs, type ToolPart } from '../../upstreams/pins/approved-texts.ts';
import { checkTools, createToolTexts, mergeToolPins, type ToolPins } from '../../upstreams/pins/pinned-tools.ts';
import {
  type FetchedPackagePin,
  hideLargeFile,
  type ServerPins,
  type ToolChange,
} from '../../upstreams/pins/server-pins.ts';
import { hideArguments, hideSecrets, hideUrlValues } from '../../upstreams/pins/show-server.ts';

/** The command or address of a server without values of variables and headers. */
export type DefinitionView =
  | {
      readonly kind: 'stdio';
      readonly command: string;
      /** Null where the reader may not see them: any argument can be a password. */
      readonly args: readonly string[] | null;
      readonly argCount: number;
      /** The names of its variables. */
      readonly env: readonly string[];
      /** The file that the command starts; null if there is none. */
      readonly program: string | null;
      /** The reason why the program cannot be started. */
      readonly problem: string | null;
      /** The files that decide what runs, with the hashes that an approval pins. Null where `args` is: arguments name them. */
      readonly files:
        | readonly { readonly path: string; readonly leadsTo: string; readonly sha256: string | null }[]
        | null;
      readonly fileCount: number;
      readonly package: FetchedPackagePin | null;
    }
  | {
      readonly kind: 'http';
      readonly url: string;
      /** The names of its headers. */
      readonly headers: readonly string[];
    };

/**
 * The state of a tool. `withheld`: clients could read its definition in different ways. `removed`: it was approved, and
 * no list has it any more. `not pinned`: the server needs no approval, or its tools have not been listed since.
 */
export const toolStates = ['approved', 'new', 'changed', 'removed', 'withheld', 'not pinned'] as const;
export type ToolState = (typeof toolStates)[number];

interface ToolView {
  readonly name: string;
  readonly state: ToolState;
  readonly description: string | null;
  readonly changes: readonly string[];
  /** The members that an approval would change. */
  readonly parts: readonly Pick<ToolPart, 'part' | 'diff' | 'note'>[];
}

/** The facts about a server that an operator can see without starting it. */
export interface ServerDetails {
  readonly definition: DefinitionView;
  /** The hash of everything that an approval of the server would pin; null if it needs none, or for a viewer. */
  readonly pinsHash: string | null;
  readonly approvedAt: string | null;
  /** The time when the server last listed its tools; null if it has not, as far as is known. */
  readonly toolsListedAt: string | null;
  readonly tools: readonly ToolView[];
  readonly restrictions: ToolRestrictions;
  readonly logins: readonly { readonly userId: string; readonly state: 'active' | 'lost' | 'wanted' }[];
}

const maxTools = 2000;
const maxNameLength = 256;
const maxDescriptionLength = 2000;
/** The most characters of the changes of all tools together: the console asks for them every few seconds. */
const maxPartsLength = 200_000;

interface DetailSources {
  readonly config: Config;
  readonly approvals: Approvals;
  readonly logins: Pick<LoginAdmin, 'list'>;
  readonly offers: readonly CachedOffer[];
}

/** Describes a server. `pins` are shown and hashed, so an approval of this hash allows exactly what was shown. */
export function describeServerDetails(
  server: ServerDefinition,
  pins: ServerPins,
  reader: DefinitionReader,
  { config, approvals, logins, offers }: DetailSources,
): ServerDetails {
  const approval = approvals.list().find(({ name }) => name === server.name);
  const listedAt = Math.max(...offers.map(({ offer }) => offer.at));
  return {
    definition: describeDefinition(pins, reader),
    pinsHash: server.source === 'operator' || reader === 'viewer' ? null : hashPins(pins),
    approvedAt: server.source === 'operator' ? null : (approval?.approvedAt ?? null),
    toolsListedAt: offers.length === 0 ? null : new Date(listedAt).toISOString(),
    tools: describeTools(server, approvals, offers),
    restrictions: describeRestrictions(config, server.name) as ToolRestrictions,
    logins: logins
      .list()
      .flatMap(({ server: name, userId, state }) => (name === server.name ? [{ userId, state }] : [])),
  };
}

/** The hash of the pins of a server. */
export function hashPins(pins: ServerPins): string {
  return sha256Hex(toCanonicalJson(pins));
}

/**
 * The reader of a definition. A reviewer sees all that an approval allows, as it is pinned. An admin who only looks sees no
 * credentials. A viewer sees no arguments, and nothing by which they could be guessed.
 */
export type DefinitionReader = 'reviewer' | 'admin' | 'viewer';

/** Describes what runs or is called, without values of variables and headers. */
export function describeDefinition(pins: ServerPins, reader: DefinitionReader): DefinitionView {
  const [isReview, isViewer] = [reader === 'reviewer', reader === 'viewer'];
  if (pins.kind === 'http') {
    return { kind: 'http', url: isReview ? pins.url : hideUrlValues(pins.url), headers: Object.keys(pins.headers) };
  }
  const { command, args, env, program, files } = pins;
  const isMissing = 'missing' in program;
  return {
    kind: 'stdio',
    command: isReview ? command : hideSecrets(command),
    args: isReview ? args : isViewer ? null : hideArguments(args),
    argCount: args.length,
    env: Object.keys(env),
    program: isMissing ? null : program.real,
    problem: isMissing ? (isViewer ? hideLargeFile(program.missing) : program.missing) : null,
    files: isViewer ? null : files.map(({ path, real, sha256 }) => ({ path, leadsTo: real, sha256: sha256 ?? null })),
    fileCount: files.length,
    package: pins.package ?? null,
  };
}

/** Merges the stored lists of all owners. A tool that one of them should not see is shown in its worst state. */
function describeTools(server: ServerDefinition, approvals: Approvals, offers: readonly CachedOffer[]): ToolView[] {
  const isPinned = server.source !== 'operator' && approvals.hasPinnedTools(server.name);
  const checked = offers.map(({ offer }) => checkTools(offer));
  const merged = mergeToolPins(checked.map(({ pins }) => pins));
  const changed = isPinned ? approvals.toolsChanged(server, merged) : [];
  const unsound = new Set(server.source === 'operator' ? [] : checked.flatMap((each) => each.unsound));
  const changes = new Map(changed.map((change) => [change.tool, change]));
  const removed = offers.length === 0 ? [] : changed.filter(({ kind }) => kind === 'removed').map(({ tool }) => tool);
  const descriptions = readDescriptions(offers);
  const describeParts = createPartsView(server.name, approvals, offers, { changed, merged });
  const states = { added: 'new', changed: 'changed', removed: 'removed' } as const;
  const names = new Set([...Object.keys(merged), ...unsound, ...removed]);
  return [...names]
    .sort()
    .slice(0, maxTools)
    .map((name) => {
      const change = changes.get(name);
      const known = change === undefined ? 'approved' : states[change.kind];
      return {
        name: cutName(name),
        state: unsound.has(name) ? 'withheld' : isPinned ? known : 'not pinned',
        description: descriptions.get(name) ?? null,
        changes: change?.changes.map(({ line }) => line.slice(0, maxDescriptionLength)) ?? [],
        parts: change === undefined ? [] : describeParts(change),
      };
    });
}

/** Returns a function that shows what changed in a tool. Lists that were made with credentials of a user are left out. */
function createPartsView(
  name: string,
  approvals: Approvals,
  offers: readonly CachedOffer[],
  { changed, merged }: { readonly changed: readonly ToolChange[]; readonly merged: ToolPins },
): (change: ToolChange) => ToolView['parts'] {
  if (changed.length === 0) return () => [];
  const wanted = new Set<unknown>(changed.map(({ tool }) => tool));
  const listings = offers
    .filter(({ owner }) => owner.hasCredentials === undefined)
    .map(({ offer }) => checkTools(offer).tools.map((text) => JSON.parse(text) as { readonly name?: unknown }))
    .map((tools) => tools.filter((tool) => wanted.has(tool.name)));
  const describe = createToolDiffs({
    ...{ approved: approvals.find(name)?.tools ?? {}, approvedTexts: approvals.texts.read(name) },
    ...{ now: merged, nowTexts: createToolTexts(listings) },
    ...{ hide: scrubSecrets, maxCharacters: maxPartsLength },
  });
  return (change) => describe(change).map(({ part, diff, note }) => ({ part: cutName(part), diff, note }));
}

/** Describes what differs between two definitions line by line, with the lines that stay the same. */
export function diffDefinitions(approved: ServerPins, now: ServerPins): string {
  const [before, after] = [listDefinition(approved), listDefinition(now)];
  const lines = after.map(({ shown, raw }) => {
    const isHidden = before.some((each) => each.shown === shown) && !before.some((each) => each.raw === raw);
    return isHidden ? `${shown} (changed)` : shown;
  });
  const join = (texts: readonly string[]) => texts.map((line) => `${escapeControls(line)}\n`).join('');
  return formatUnifiedDiff(join(before.map(({ shown }) => shown)), join(lines)).text;
}

/** Lists the parts of a definition: as they may be shown, and as they are. */
function listDefinition(pins: ServerPins): { readonly shown: string; readonly raw: string }[] {
  const view = describeDefinition(pins, 'reviewer');
  const known = (text: string) => ({ shown: text, raw: text });
  const listNames = (what: string, hashes: Readonly<Record<string, string>>) =>
    Object.keys(hashes)
      .sort()
      .map((name) => ({ shown: `${what} ${name}`, raw: `${what} ${name} ${hashes[name]}` }));
  if (view.kind === 'http' || pins.kind === 'http') {
    if (view.kind !== 'http' || pins.kind !== 'http') return [];
    return [known(`url ${pins.url}`), ...listNames('header', pins.headers)];
  }
  return [
    known(`command ${pins.command}`),
    known(`program ${view.program ?? view.problem}`),
    ...pins.args.map((arg) => known(`argument ${arg}`)),
    ...listNames('variable', pins.env),
    ...pins.files.map(({ path, real, sha256 = null }) =>
      known(`file ${path}${path === real ? '' : ` → ${real}`} (sha256 ${sha256})`),
    ),
    ...(view.package === null
      ? []
      : [known(`package ${view.package.name} ${view.package.version} (${view.package.integrity})`)]),
  ];
}

/** Reads the descriptions of tools. A list that was made with the credentials of a user may repeat them: it is left out. */
function readDescriptions(offers: readonly CachedOffer[]): Map<string, string> {
  const found = new Map<string, string>();
  for (const { offer, owner } of offers) {
    if (owner.hasCredentials) continue;
    for (const text of offer.tools) {
      const { name, description } = (JSON.parse(text) ?? {}) as {
        readonly name?: unknown;
        readonly description?: unknown;
      };
      if (typeof name === 'string' && typeof description === 'string' && !found.has(name))
        found.set(name, shortenDescription(description));
    }
  }
  return found;
}

function cutName(name: string): string {
  return name.slice(0, maxNameLength);
}

/** Shortens the text of a server and removes what looks like a credential. */
export function shortenDescription(text: string): string {
  return scrubSecrets(text.slice(0, 2 * maxDescriptionLength))
    .slice(0, maxDescriptionLength)
    .replace(/\p{Surrogate}/gu, '');
}
