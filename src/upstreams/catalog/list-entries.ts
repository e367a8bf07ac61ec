import { createHash } from 'node:crypto';
import { applyEdits, replaceValue } from '../../protocol/json/edit.ts';
import { memberOf, scanEntry, stringAt } from '../../protocol/json/scan.ts';

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
export function named(server: string, texts: readonly string[]): CatalogEntry[] {
  return texts.flatMap((text) => {
    const bytes = Buffer.from(text);
    const member = memberOf(scanEntry(bytes), 'name');
    const name = stringAt(bytes, member);
    if (member === undefined || name === undefined || name === '') return [];
    const shown = toPublicName(server, name);
    const edited = applyEdits(bytes, [replaceValue(member, JSON.stringify(shown))]).toString('utf8');
    return [{ server, name, publicName: shown, text: edited }];
  });
}

export function uriOf(text: string): string | undefined {
  const bytes = Buffer.from(text);
  return stringAt(bytes, memberOf(scanEntry(bytes), 'uri'));
}

export function templateOf(text: string): string | undefined {
  const bytes = Buffer.from(text);
  return stringAt(bytes, memberOf(scanEntry(bytes), 'uriTemplate'));
}

export function withUri(text: string, uri: string): string {
  return replaceMember(text, 'uri', uri);
}

export function withTemplate(text: string, template: string): string {
  return replaceMember(text, 'uriTemplate', template);
}

function replaceMember(text: string, key: string, value: string): string {
  const bytes = Buffer.from(text);
  const member = memberOf(scanEntry(bytes), key);
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
export function splitName(name: string): { readonly server: string; readonly name: string } | undefined {
  const at = name.indexOf(separator);
  return at < 1 ? undefined : { server: name.slice(0, at), name: name.slice(at + separator.length) };
}
