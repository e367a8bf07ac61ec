import { haveTwins } from './json/fold-key.ts';
import { type Member, memberOf, type Shape, shapeAt, stringAt } from './json/scan.ts';
import type { Message } from './message.ts';
import { ProtocolFault } from './protocol-fault.ts';

/** The parameter that says what a request is about, by method. Permissions, rules, pins and routes depend on it. */
const subjects: ReadonlyMap<string, 'name' | 'uri'> = new Map([
  ['tools/call', 'name'],
  ['prompts/get', 'name'],
  ['resources/read', 'uri'],
]);
/** Methods that only the handshake era has; in the modern one nobody knows them. */
const handshakeSubjects: ReadonlyMap<string, 'uri'> = new Map([
  ['resources/subscribe', 'uri'],
  ['resources/unsubscribe', 'uri'],
]);

/** The journal holds names and addresses whole up to these lengths. */
const longestName = 1024;
const longestAddress = 8192;

/** Characters that one reader keeps and another replaces or stops at: control characters and halves of pairs. */
const unstable = /[\p{Cc}\p{Cs}]/u;
/** Characters that some readers drop from a name, because nobody sees them. */
const invisible = /[\p{Cf}\p{Zl}\p{Zp}]/u;

/**
 * Refuses a request whose subject two readers could take differently. A JavaScript server turns `["delete"]` into
 * "delete" where Ambit sees no name at all; another one trims a name, or stops at a control character.
 */
export function assertParamTypes(message: Message, isHandshake: boolean): void {
  if (message.kind !== 'request') return;
  const { bytes, method, params } = message;
  const subject = subjects.get(method) ?? (isHandshake ? handshakeSubjects.get(method) : undefined);
  if (subject !== undefined) assertText(bytes, memberOf(params?.shape, subject), `params.${subject}`);
  else if (method === 'completion/complete') assertReference(bytes, memberOf(params?.shape, 'ref'));
}

/** What a completion is for: a prompt by its name, or a resource template by its URI. */
function assertReference(bytes: Buffer, ref: Member | undefined): void {
  const shape = ref === undefined ? undefined : shapeAt(bytes, ref);
  if (shape === undefined) throw invalid('params.ref must be an object');
  assertNoRepeats(shape);
  assertText(bytes, memberOf(shape, 'type'), 'params.ref.type');
  const key = stringAt(bytes, memberOf(shape, 'type')) === 'ref/prompt' ? 'name' : 'uri';
  assertText(bytes, memberOf(shape, key), `params.ref.${key}`);
}

function assertNoRepeats({ members }: Shape): void {
  if (haveTwins(members.map(({ key }) => key))) throw invalid('params.ref has a key twice');
}

function assertText(bytes: Buffer, member: Member | undefined, where: string): void {
  const text = stringAt(bytes, member);
  if (text === undefined) throw invalid(`${where} must be a string`);
  const longest = where.endsWith('name') ? longestName : longestAddress;
  if (text.length > longest) throw invalid(`${where} must not be longer than ${longest} characters`);
  if (unstable.test(text)) throw invalid(`${where} must not contain control characters`);
  if (!where.endsWith('name')) return;
  if (invisible.test(text)) throw invalid(`${where} must not contain invisible characters`);
  if (text !== text.trim()) throw invalid(`${where} must not begin or end with white space`);
}

function invalid(what: string): ProtocolFault {
  return new ProtocolFault(-32602, 200, `Invalid params: ${what}`);
}
