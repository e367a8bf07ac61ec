import { createHash } from 'node:crypto';
import { applyEdits, replaceValue } from '../../protocol/json/edit.ts';
import { findReading } from '../../protocol/json/fold-key.ts';
import { decodeStringToken, walkStrings } from '../../protocol/json/json-strings.ts';
import { findMember, readStringValue, scanEntry } from '../../protocol/json/scan.ts';

const separator = '__';

/** The names that all hosts and model APIs accept. */
const acceptedName = /^[A-Za-z0-9_-]{1,64}$/;
const maxNameLength = 64;
const rejectedCharacter = /[^A-Za-z0-9_-]/gu;

/** The end of a short name: a hash of the real name, and a checksum of the text before it. */
const shortEnd = /_[0-9a-f]{12}$/;
const [endLength, checksumLength] = [13, 4];

interface CatalogEntry {
  readonly server: string;
  /** The name on the server's side. */
  readonly name: string;
  readonly publicName: string;
  /** JSON text, under the public name. */
  readonly text: string;
}

/**
 * Renames the entries of a server to their public names. Entries without a name are left out, and so is a name that
 * occurs again: hosts refuse a list with two equal names.
 */
export function toCatalogEntries(server: string, texts: readonly string[]): CatalogEntry[] {
  const seen = new Set<string>();
  return texts.flatMap((text) => {
    const bytes = Buffer.from(text);
    const member = findMember(scanEntry(bytes), 'name');
    const name = readStringValue(bytes, member);
    if (member === undefined || name === undefined || name === '') return [];
    const publicName = toPublicName(server, name);
    if (seen.has(publicName)) return [];
    seen.add(publicName);
    const edited = applyEdits(bytes, [replaceValue(member, JSON.stringify(publicName))]).toString('utf8');
    return [{ server, name, publicName, text: edited }];
  });
}

export function readEntryName(text: string): string | undefined {
  const bytes = Buffer.from(text);
  return readStringValue(bytes, findMember(scanEntry(bytes), 'name'));
}

export function readUri(text: string): string | undefined {
  const bytes = Buffer.from(text);
  return readStringValue(bytes, findMember(scanEntry(bytes), 'uri'));
}

export function readTemplate(text: string): string | undefined {
  const bytes = Buffer.from(text);
  return readStringValue(bytes, findMember(scanEntry(bytes), 'uriTemplate'));
}

export function replaceUri(text: string, uri: string): string {
  return replaceMember(text, 'uri', uri);
}

export function replaceTemplate(text: string, template: string): string {
  return replaceMember(text, 'uriTemplate', template);
}

/** Reads the addresses of the apps that show the results of a tool. */
export function readAppUris(text: string): string[] {
  if (!mayNameApp.test(text)) return [];
  const bytes = Buffer.from(text);
  return findAppUriValues(bytes).map(({ start, end }) => decodeStringToken(bytes, start, end));
}

/** Replaces the addresses of apps in a tool. The rest of its text stays as it is. */
export function replaceAppUris(text: string, rename: (uri: string) => string): string {
  if (!mayNameApp.test(text)) return text;
  const bytes = Buffer.from(text);
  const edits = findAppUriValues(bytes).flatMap((value) => {
    const uri = decodeStringToken(bytes, value.start, value.end);
    const shown = rename(uri);
    return shown === uri ? [] : [replaceValue(value, JSON.stringify(shown))];
  });
  return edits.length === 0 ? text : applyEdits(bytes, edits).toString('utf8');
}

/** Matches every text that may name an app: plainly, or in a spelling that only some readers accept. */
const mayNameApp = /resourceuri|\\|[^\0-\x7f]/i;
const appPaths = new Set(['_meta ui resourceuri', '_meta ui/resourceuri']);
const appKeys = new Set([...appPaths].flatMap((path) => path.split(' ')));

/** Finds `_meta.ui.resourceUri` and the older `_meta["ui/resourceUri"]`, in any spelling that some reader accepts. */
function findAppUriValues(bytes: Buffer): { readonly start: number; readonly end: number }[] {
  const found: { start: number; end: number }[] = [];
  walkStrings(bytes, 0, bytes.length, (start, end, keys, isKey) => {
    if (!isKey && isAppUriPath(keys)) found.push({ start, end });
  });
  return found;
}

/** Tells whether these keys lead to the address of an app. */
export function isAppUriPath(keys: readonly string[]): boolean {
  if (keys.length < 2 || keys.length > 3 || findReading(keys[0] as string, appKeys) !== '_meta') return false;
  return appPaths.has(keys.map((key) => findReading(key, appKeys)).join(' '));
}

function replaceMember(text: string, key: string, value: string): string {
  const bytes = Buffer.from(text);
  const member = findMember(scanEntry(bytes), key);
  if (member === undefined) return text;
  return applyEdits(bytes, [replaceValue(member, JSON.stringify(value))]).toString('utf8');
}

/**
 * The public name of a server's tool or prompt: `server__tool` if hosts accept it, otherwise a short name. It depends on
 * these two names only. The server name always fits, so no server can get a name of another one.
 */
export function toPublicName(server: string, name: string): string {
  const full = joinNames(server, name);
  // A real name that looks like a short name is shortened too, so that it cannot be equal to one.
  return acceptedName.test(full) && !isShortName(full) ? full : shortenName(full);
}

/** Joins the names as patterns in rules and the journal write them. */
export function joinNames(server: string, name: string): string {
  return `${server}${separator}${name}`;
}

function shortenName(full: string): string {
  const readable = full.replace(rejectedCharacter, '_').slice(0, maxNameLength - endLength);
  // As JSON, half a surrogate pair differs from every other character.
  const hash = hashHex(JSON.stringify(full)).slice(0, endLength - 1 - checksumLength);
  const start = `${readable}_${hash}`;
  return `${start}${hashHex(start).slice(0, checksumLength)}`;
}

/** Tells whether a name has the form of a short name. Its real name is only in the list of its server. */
export function isShortName(name: string): boolean {
  if (!shortEnd.test(name)) return false;
  return hashHex(name.slice(0, -checksumLength)).startsWith(name.slice(-checksumLength));
}

function hashHex(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

/** Splits a public name at its first "__", which no server name contains. Undefined when there is none. */
export function splitPublicName(name: string): { readonly server: string; readonly name: string } | undefined {
  const at = name.indexOf(separator);
  return at < 1 ? undefined : { server: name.slice(0, at), name: name.slice(at + separator.length) };
}
