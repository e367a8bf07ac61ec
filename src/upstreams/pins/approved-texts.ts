import { closeSync, constants, fstatSync, openSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { serverName } from '../../config/schema/schema-parts.ts';
import { makePrivateFolder } from '../../lib/fs/private-files.ts';
import { writeAtomically } from '../../lib/fs/write-atomically.ts';
import { sha256Hex } from '../../lib/json/canonical-json.ts';
import { formatUnifiedDiff } from '../../lib/text/line-diff.ts';
import { createScrubber, listSecretArguments } from '../../observability/log/scrub.ts';
import { listVariants, rankMember, type ToolPin, type ToolPins, type ToolTexts } from './pinned-tools.ts';
import { type ApprovableServer, findNearestPin, type ToolChange } from './server-pins.ts';
import { renderValue } from './show-server.ts';

/** The longest texts that are kept, in characters of all members together. */
const maxKeptOfTool = 16 * 1024;
const maxKeptOfServer = 256 * 1024;
const maxFileBytes = 4 * maxKeptOfServer;

/** Shorter values of variables, such as "1", may occur in any text. */
const minSecretLength = 6;

/**
 * The approved texts of tools, in one private file for each server. Approvals hold hashes only, and a text counts only
 * with the hash that was approved, so whoever changes these files can remove a text but not replace it.
 */
export interface ApprovedTexts {
  /** Keeps the texts in place of earlier ones. Texts that are too long or contain a credential are left out. */
  keep(server: ApprovableServer, texts: ToolTexts | undefined): void;
  /** Returns the kept texts by their hashes; undefined if none were kept. */
  read(name: string): ReadonlyMap<string, string> | undefined;
  forget(name: string): void;
}

const shape = z.strictObject({ version: z.literal(1), texts: z.record(z.string(), z.string()) });

export function createApprovedTexts(dataDir: string): ApprovedTexts {
  const folder = join(dataDir, 'approved-texts');
  const fileOf = (name: string) => (serverName.test(name) ? join(folder, `${name}.json`) : undefined);

  function forget(name: string): void {
    const file = fileOf(name);
    if (file !== undefined) rmSync(file, { force: true });
  }

  return {
    forget,

    keep(server, texts) {
      const file = fileOf(server.name);
      try {
        forget(server.name);
        if (file === undefined || texts === undefined) return;
        makePrivateFolder(folder);
        const kept = Object.fromEntries(selectTexts(server, texts));
        writeAtomically(file, `${JSON.stringify({ version: 1, texts: kept }, undefined, 1)}\n`, 0o600);
      } catch {
        // The approval itself is stored already. Without its texts, a review says that they were not kept.
      }
    },

    read(name) {
      const file = fileOf(name);
      const text = file === undefined ? undefined : readOwnFile(file);
      if (text === undefined) return undefined;
      return new Map(Object.entries(text).filter(([hash, each]) => sha256Hex(each) === hash));
    },
  };
}

function readOwnFile(file: string): Readonly<Record<string, string>> | undefined {
  let descriptor: number | undefined;
  try {
    descriptor = openSync(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    const stat = fstatSync(descriptor);
    if (!stat.isFile() || stat.size > maxFileBytes) return undefined;
    return shape.safeParse(JSON.parse(readFileSync(descriptor, 'utf8'))).data?.texts;
  } catch {
    return undefined;
  } finally {
    if (descriptor !== undefined) closeSync(descriptor);
  }
}

/** Selects the texts that may be kept, by their hashes. */
function selectTexts(server: ApprovableServer, texts: ToolTexts): Map<string, string> {
  const hide = createScrubber(listHiddenValues(server));
  const short = [...limitTexts(texts).values()].flat();
  return new Map(short.filter(({ text }) => hide(text) === text).map(({ hash, text }) => [hash, text]));
}

/** Leaves out the texts that are too long to be kept. */
export function limitTexts(texts: ToolTexts): ToolTexts {
  let left = maxKeptOfServer;
  const limited = [...texts].map(([tool, members]) => {
    let leftOfTool = maxKeptOfTool;
    const short = members.filter(({ text }) => {
      if (text.length > leftOfTool || text.length > left) return false;
      leftOfTool -= text.length;
      left -= text.length;
      return true;
    });
    return [tool, short] as const;
  });
  return new Map(limited);
}

/** The values of a definition that a review does not show, as they are and as JSON. A server may repeat them in its tools. */
function listHiddenValues(server: ApprovableServer): string[] {
  const values =
    server.kind === 'http'
      ? [...Object.values(server.headers), ...server.url.searchParams.values(), server.url.password]
      : [
          ...listSecretArguments(server.args),
          ...Object.entries(server.env).flatMap(([name, value]) => (renderValue(name, value) === value ? [] : [value])),
        ];
  return values
    .filter(({ length }) => length >= minSecretLength)
    .flatMap((value) => [value, JSON.stringify(value).slice(1, -1)]);
}

/** A member of a tool before and after an approval. */
export interface ToolPart {
  /** Its name, such as "description" or "inputSchema". */
  readonly part: string;
  /** The approved text; null if there was none, or if it was not kept. */
  readonly before: string | null;
  /** The present text; null if the member was removed. */
  readonly after: string | null;
  /** The changed lines, with "+" or "-" before each, and three unchanged lines around them. */
  readonly diff: string;
  /** The reason why something is not shown. */
  readonly note: string | null;
}

export interface ToolDiffSources {
  readonly approved: ToolPins;
  readonly approvedTexts: ReadonlyMap<string, string> | undefined;
  readonly now: ToolPins;
  readonly nowTexts: ToolTexts;
  /** Changes the texts before they are compared and shown. */
  readonly hide?: (text: string) => string;
  /** The most characters of all parts together. */
  readonly maxCharacters?: number;
}

/** Beyond this many characters a text is compared only in its beginning. */
const maxCompared = 200_000;
const maxShown = 20_000;
const maxDiffShown = 60_000;
const maxReview = 4_000_000;
const maxIndentedDepth = 40;

const tooLong = 'The approved text was too long to keep, or contained a credential.';
const hashOnly = 'The approved text was not kept. Only its hash is known.';
const unknownNow = 'The present text is not shown here. Review the server to see it.';
const noDifference = 'The difference is in a part that is hidden, because it looks like a credential.';
const cut = 'Only the beginning is shown.';
const leftOut = 'The changes of all tools together are too long to show this one.';

/** Returns a function that shows what is different in a changed tool, and the whole text of a new one. */
export function createToolDiffs(sources: ToolDiffSources): (change: ToolChange) => ToolPart[] {
  const { approved, approvedTexts, now, nowTexts, hide = (text) => text, maxCharacters = maxReview } = sources;
  let left = maxCharacters;

  function describePart(part: string, before: string | undefined, after: string | undefined, present: Texts): ToolPart {
    const [old, fresh] = [before && approvedTexts?.get(before), after && present.get(after)];
    const [first, second] = [old, fresh].map((text) => text && hide(showText(text)));
    const isLost = before !== undefined && old === undefined;
    const notes = [
      ...(isLost ? [approvedTexts === undefined ? hashOnly : tooLong] : []),
      ...(after !== undefined && fresh === undefined ? [unknownNow] : []),
    ];
    const compared = [first, second].map((text) => text?.slice(0, maxCompared));
    const whole = formatUnifiedDiff(...(compared.map((text) => (text ? `${text}\n` : '')) as [string, string])).text;
    const shown = [first, second].map((text) => text && cutText(text, maxShown)) as [string?, string?];
    const diff = cutText(whole, maxDiffShown);
    if ([first, second].some((text) => (text?.length ?? 0) > maxCompared) || diff.length < whole.length)
      notes.push(cut);
    if (diff === '' && notes.length === 0) notes.push(noDifference);
    left -= diff.length + shown.reduce((sum, text) => sum + (text?.length ?? 0), 0);
    if (left < 0) return { part, before: null, after: null, diff: '', note: leftOut };
    return { part, before: shown[0] ?? null, after: shown[1] ?? null, diff, note: notes.join(' ') || null };
  }

  return ({ tool, kind }) => {
    const present: Texts = new Map(nowTexts.get(tool)?.map(({ hash, text }) => [hash, text]));
    const before = kind === 'added' ? [{}] : listVariants(approved[tool] ?? {});
    const after = kind === 'removed' ? [{}] : listVariants(now[tool] ?? {});
    // A removed tool is shown with all its approved definitions, any other with its present ones.
    const pairs =
      kind === 'removed'
        ? before.map((pin) => ({ before: pin, members: Object.keys(pin), after: {} as ToolPin }))
        : after.map((pin) => ({ ...findNearestPin(before, pin), after: pin }));
    const parts = pairs.flatMap((pair) =>
      pair.members.map((member) => [member, hashOf(pair.before, member), hashOf(pair.after, member)] as const),
    );
    const unique = new Map(parts.map((part) => [JSON.stringify(part), part]));
    return [...unique.values()]
      .sort(([a], [b]) => rankMember(a) - rankMember(b) || (a < b ? -1 : 1))
      .map(([member, old, fresh]) => describePart(member, old, fresh, present));
  };
}

type Texts = ReadonlyMap<string, string>;

function hashOf(pin: ToolPin, member: string): string | undefined {
  return Object.hasOwn(pin, member) ? pin[member] : undefined;
}

/** Shows a member as a person reads it: a text as it is, and everything else as indented JSON. */
function showText(canonical: string): string {
  const value: unknown = JSON.parse(canonical);
  if (typeof value === 'string') return value;
  // The indentation of deeply nested lists would be much longer than the lists.
  return canonical.length > maxCompared || isDeeper(value, maxIndentedDepth)
    ? canonical
    : JSON.stringify(value, undefined, 2);
}

function isDeeper(value: unknown, depth: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return depth === 0 || Object.values(value).some((inner) => isDeeper(inner, depth - 1));
}

function cutText(text: string, length: number): string {
  return text.slice(0, length).replace(/\p{Surrogate}/gu, '');
}
