import { createHash } from 'node:crypto';
import { applyEdits, replaceValue } from '../../protocol/json/edit.ts';
import { findMember, readStringValue, scanEntry } from '../../protocol/json/scan.ts';

const separator = '__';

/** The longest tool name that hosts accept. */
const maxNameLength = 64;

interface CatalogEntry {
  readonly server: string;
  /** The name on the server's side. */
  readonly name: string;
  readonly publicName: string;
  /** JSON text, under the public name. */
  readonly text: string;
}

/** Renames the entries of a server to their public names. Entries without a name are left out. */
export function toCatalogEntries(server: string, texts: readonly string[]): CatalogEntry[] {
  return texts.flatMap((text) => {
    const bytes = Buffer.from(text);
    const member = findMember(scanEntry(bytes), 'name');
    const name = readStringValue(bytes, member);
    if (member === undefined || name === undefined || name === '') return [];
    const publicName = toPublicName(server, name);
    const edited = applyEdits(bytes, [replaceValue(member, JSON.stringify(publicName))]).toString('utf8');
    return [{ server, name, publicName, text: edited }];
  });
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

function replaceMember(text: string, key: string, value: string): string {
  const bytes = Buffer.from(text);
  const member = findMember(scanEntry(bytes), key);
  if (member === undefined) return text;
  return applyEdits(bytes, [replaceValue(member, JSON.stringify(value))]).toString('utf8');
}

/** The public name of a server's tool or prompt: `server__tool`, or a stable short form. */
export function toPublicName(server: string, name: string): string {
  const full = `${server}${separator}${name}`;
  if (full.length <= maxNameLength) return full;
  const hash = createHash('sha256').update(full).digest('hex').slice(0, 8);
  return `${full.slice(0, maxNameLength - 9)}_${hash}`;
}

/** Splits a public name at its first "__", which no server name contains. Undefined when there is none. */
export function splitPublicName(name: string): { readonly server: string; readonly name: string } | undefined {
  const at = name.indexOf(separator);
  return at < 1 ? undefined : { server: name.slice(0, at), name: name.slice(at + separator.length) };
}
