import { applyEdits, replaceValue } from '../../wire/edit.ts';
import { memberOf, scanObject, stringAt } from '../../wire/scan.ts';

/** Where several servers are one, a question to a person says which of them asks. `params` is JSON text. */
export function nameAsker(server: string, method: string, params: string): string {
  if (method !== 'elicitation/create') return params;
  const bytes = Buffer.from(params);
  const member = memberOf(scanObject(bytes), 'message');
  const words = stringAt(bytes, member);
  if (member === undefined || words === undefined) return params;
  return applyEdits(bytes, [replaceValue(member, JSON.stringify(`${server} asks: ${words}`))]).toString('utf8');
}
