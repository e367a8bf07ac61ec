import { applyEdits, type Edit, replaceValue } from '../../../protocol/json/edit.ts';
import { scanObject, stringAt } from '../../../protocol/json/scan.ts';

/**
 * Puts the name of the asking server before a question to a person, for clients that see several servers at one address.
 * `params` is JSON text. A question that begins with the name already stays as it is.
 */
export function nameAsker(server: string, method: string, params: string): string {
  if (method !== 'elicitation/create') return params;
  const bytes = Buffer.from(params);
  const name = `${server} asks: `;
  const edits: Edit[] = [];
  // A server may write it twice, and readers differ in which of them they take.
  for (const member of scanObject(bytes).members.filter(({ key }) => key === 'message')) {
    const words = stringAt(bytes, member);
    if (words?.startsWith(name) === false) edits.push(replaceValue(member, JSON.stringify(name + words)));
  }
  return edits.length === 0 ? params : applyEdits(bytes, edits).toString('utf8');
}
