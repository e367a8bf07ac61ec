import { applyEdits, replaceValue } from '../../protocol/json/edit.ts';
import { memberOf, scanEntry, stringAt } from '../../protocol/json/scan.ts';
import { publicName } from './tool-names.ts';

export interface Entry {
  readonly server: string;
  /** The name on the server's side. */
  readonly name: string;
  readonly publicName: string;
  /** JSON text, under the public name. */
  readonly text: string;
}

/** Entries of a server under the names they have among those of all servers; what has no name, or is no object, is left out. */
export function named(server: string, texts: readonly string[]): Entry[] {
  return texts.flatMap((text) => {
    const bytes = Buffer.from(text);
    const member = memberOf(scanEntry(bytes), 'name');
    const name = stringAt(bytes, member);
    if (member === undefined || name === undefined || name === '') return [];
    const shown = publicName(server, name);
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
  return withMember(text, 'uri', uri);
}

export function withTemplate(text: string, template: string): string {
  return withMember(text, 'uriTemplate', template);
}

function withMember(text: string, key: string, value: string): string {
  const bytes = Buffer.from(text);
  const member = memberOf(scanEntry(bytes), key);
  if (member === undefined) return text;
  return applyEdits(bytes, [replaceValue(member, JSON.stringify(value))]).toString('utf8');
}
