import { hasHidden } from '../lib/text/hidden-characters.ts';
import { hasTwinKeys } from './json/fold-key.ts';
import {
  findMember,
  type JsonMember,
  type ObjectShape,
  readElements,
  readShape,
  readStringValue,
} from './json/scan.ts';
import type { Message } from './message.ts';
import { ProtocolError } from './protocol-error.ts';

/** Limit of what a client may say about itself, in bytes. It is kept as long as the client, and repeated to servers. */
const maxClientInfoBytes = 65_536;
/** Limits of the subscriptions of one client, in either era, and of each URI. */
export const maxSubscriptions = 1000;
export const maxUriLength = 8192;
const maxLevelBytes = 64;
const protocolPrefix = 'io.modelcontextprotocol/';

/** Refuses a request that is too large to keep: many small requests must not fill the memory. */
export function assertParamSizes(message: Message): void {
  if (message.kind !== 'request') return;
  if (message.method === 'initialize')
    assertMaxBytes(message.bytes.length, maxClientInfoBytes, 'an initialize request');
  if (message.method === 'logging/setLevel') {
    const level = findMember(message.params?.shape, 'level');
    if (level !== undefined) assertMaxBytes(level.end - level.start, maxLevelBytes, 'params.level');
  }
  if (message.method === 'subscriptions/listen') assertSubscriptions(message);
  const { meta } = message;
  if (meta === undefined || meta.end - meta.start <= maxClientInfoBytes) return;
  let described = 0;
  for (const { key, start, end } of meta.members) if (key.startsWith(protocolPrefix)) described += end - start;
  assertMaxBytes(described, maxClientInfoBytes, `what _meta says under ${protocolPrefix}`);
}

/** Checks subscriptions, each of which can become a request. Repeated keys all count: readers differ. */
function assertSubscriptions({ bytes, params }: Message): void {
  const filters = findMembers(params?.shape, 'notifications').map((filter) => readShape(bytes, filter));
  const taskLists = filters.flatMap((filter) => findMembers(filter, 'taskIds'));
  if (taskLists.flatMap((list) => readElements(bytes, list)).length > maxSubscriptions) {
    const what = `a listen request may name at most ${maxSubscriptions} tasks`;
    throw new ProtocolError(-32602, 200, `Invalid params: ${what}`);
  }
  const lists = filters.flatMap((filter) => findMembers(filter, 'resourceSubscriptions'));
  const uris = lists.flatMap((list) =>
    readElements(bytes, list).map((span) => ({ ...list, ...span, shape: undefined })),
  );
  if (uris.length > maxSubscriptions) {
    throw new ProtocolError(
      -32602,
      200,
      `Invalid params: a listen request may name at most ${maxSubscriptions} resources`,
    );
  }
  for (const member of uris) {
    const uri = readStringValue(bytes, member);
    if (uri !== undefined && uri.length <= maxUriLength) continue;
    const what = `a URI in resourceSubscriptions must be a string of ${maxUriLength} characters at most`;
    throw new ProtocolError(-32602, 200, `Invalid params: ${what}`);
  }
}

function findMembers(shape: ObjectShape | undefined, key: string): JsonMember[] {
  return (shape?.members ?? []).filter((member) => member.key === key);
}

function assertMaxBytes(bytes: number, limit: number, what: string): void {
  if (bytes <= limit) return;
  throw new ProtocolError(-32602, 200, `Invalid params: ${what} has ${bytes} bytes; at most ${limit} are allowed`);
}

/** The parameter that names the subject of a request, by method. Permissions, rules, pins and routes depend on it. */
const subjectParams: ReadonlyMap<string, 'name' | 'uri'> = new Map([
  ['tools/call', 'name'],
  ['prompts/get', 'name'],
  ['resources/read', 'uri'],
]);
/** Methods of the handshake era only. */
const handshakeSubjectParams: ReadonlyMap<string, 'uri'> = new Map([
  ['resources/subscribe', 'uri'],
  ['resources/unsubscribe', 'uri'],
]);
/** Lengths up to which the journal stores names and addresses. */
const maxNameLength = 1024;
const maxAddressLength = 8192;
/** Characters that some readers keep and others replace or stop at: control characters and lone surrogates. */
const unstable = /[\p{Cc}\p{Cs}]/u;
/** Text that passes all checks below. Nearly every name and address is of this kind. */
const plainText = /^[!-~]+$/;

/**
 * Refuses a request whose subject two readers could take differently. A JavaScript server turns `["delete"]` into
 * "delete" where Ambit sees no name; another one trims a name, or stops at a control character.
 */
export function assertParamTypes(message: Message, isHandshake: boolean): void {
  if (message.kind !== 'request') return;
  const { bytes, method, params } = message;
  const subject = subjectParams.get(method) ?? (isHandshake ? handshakeSubjectParams.get(method) : undefined);
  if (subject !== undefined) assertText(bytes, findMember(params?.shape, subject), subject, `params.${subject}`);
  else if (method === 'completion/complete') assertReference(bytes, findMember(params?.shape, 'ref'));
}

/** Checks the subject of a completion: a prompt by name, or a resource template by URI. */
function assertReference(bytes: Buffer, ref: JsonMember | undefined): void {
  const shape = ref === undefined ? undefined : readShape(bytes, ref);
  if (shape === undefined) throw invalidParams('params.ref must be an object');
  assertNoRepeats(shape);
  assertText(bytes, findMember(shape, 'type'), 'type', 'params.ref.type');
  const key = readStringValue(bytes, findMember(shape, 'type')) === 'ref/prompt' ? 'name' : 'uri';
  assertText(bytes, findMember(shape, key), key, `params.ref.${key}`);
}

function assertNoRepeats({ members }: ObjectShape): void {
  if (hasTwinKeys(members.map(({ key }) => key))) throw invalidParams('params.ref has a key twice');
}

function assertText(bytes: Buffer, member: JsonMember | undefined, key: string, where: string): void {
  const text = readStringValue(bytes, member);
  if (text === undefined) throw invalidParams(`${where} must be a string`);
  const maxLength = key === 'name' ? maxNameLength : maxAddressLength;
  if (text.length > maxLength) throw invalidParams(`${where} must not be longer than ${maxLength} characters`);
  if (plainText.test(text)) return;
  if (unstable.test(text)) throw invalidParams(`${where} must not contain control characters`);
  if (key !== 'name') return;
  // Some readers drop them from a name.
  if (hasHidden(text)) throw invalidParams(`${where} must not contain invisible characters`);
  if (text !== text.trim()) throw invalidParams(`${where} must not begin or end with white space`);
}

function invalidParams(what: string): ProtocolError {
  return new ProtocolError(-32602, 200, `Invalid params: ${what}`);
}
