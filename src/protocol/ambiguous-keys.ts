import { findReading, foldKey, hasTwinKeys, isOddKey, readsAs } from './json/fold-key.ts';
import { findMember, type ObjectShape } from './json/scan.ts';
import { type Message, MessageError, readMessage, relatedTaskKey } from './message.ts';

/**
 * Names of the protocol by their folded form. Two readers of `{"name": "a", "Name": "b"}` may see two different tools.
 * Client messages are therefore refused if such a name occurs twice or in another spelling. The arguments of a tool may
 * contain anything.
 */
const namesByFoldedName = new Map(
  [
    '_meta',
    'name',
    'arguments',
    'uri',
    'cursor',
    'requestState',
    'inputResponses',
    'taskId',
    'task',
    'protocolVersion',
    'capabilities',
    'clientInfo',
    'level',
    'ref',
    'argument',
    'context',
    'requestId',
    'reason',
    'progressToken',
    'progress',
    'notifications',
  ].map((name) => [name.toLowerCase(), name] as const),
);

const protocolNames = new Set(namesByFoldedName.values());

/** Other names in the messages of servers. */
const serverNames = [
  ...['content', 'structuredContent', 'isError', 'resultType', 'inputRequests', 'messages', 'contents', 'tasks'],
  ...['tools', 'prompts', 'resources', 'resourceTemplates', 'nextCursor', 'ttlMs', 'cacheScope', 'serverInfo'],
  ...['instructions', 'systemPrompt', 'message', 'data', 'action', 'status'],
];
const foldedServerNames = new Set([...namesByFoldedName.keys(), ...serverNames.map(foldKey)]);

/** The message is valid, but readers find different things in it. */
class OddKeyError extends MessageError {}

/** Whether a line of a server cannot be read, so that the request it answers is unknown. */
export function isUnreadableMessage(fault: unknown): boolean {
  return fault instanceof OddKeyError || (fault instanceof MessageError && fault.isNotJson);
}

/**
 * Reads one JSON-RPC message of a server. Throws MessageError if it is none, or if a name of the protocol contains
 * characters that some readers drop or stop at. Other letter cases are checked where a key is read.
 */
export function readServerMessage(text: Buffer): Message {
  const message = readMessage(text);
  refuseOddKeys((message.params ?? message.result)?.shape, foldedServerNames);
  refuseOddKeys(message.meta, foldedMetaKeys);
  refuseOddKeys(findMember(message.meta, relatedTaskKey)?.shape, foldedServerNames);
  refuseOddKeys(findMember(message.result?.shape, 'task')?.shape, foldedServerNames);
  return message;
}

function refuseOddKeys(shape: ObjectShape | undefined, names: ReadonlySet<string>): void {
  if (shape === undefined) return;
  for (const { key } of shape.members) {
    if (isOddKey(key) && findReading(key, names) !== undefined) {
      throw new OddKeyError(`${JSON.stringify(key)} is not a name of the protocol`, false);
    }
  }
}

const requestMethod =
  /^(?:initialize$|ping$|(?:server|tools|prompts|resources|completion|logging|subscriptions|tasks|sampling|elicitation|roots)\/)/;
const notificationMethod = /^notifications\//;

export function refuseAmbiguousKeys(message: Message): void {
  try {
    refuseAmbiguousParams(message);
  } catch (fault) {
    if (!(fault instanceof MessageError) || message.kind !== 'request') throw fault;
    throw new MessageError(fault.message, false, message.id);
  }
}

function refuseAmbiguousParams(message: Message): void {
  if (message.kind === 'response' && message.params !== undefined) {
    throw new MessageError('a message is either a request or a response', false);
  }
  // A call without an id, or a notification with one, may be read as either.
  const calls = requestMethod.test(message.method);
  const notifies = notificationMethod.test(message.method);
  if (calls && message.kind === 'notification') throw new MessageError('a request needs an "id"', false);
  if (notifies && message.kind === 'request') throw new MessageError('a notification has no "id"', false);
  const where = message.kind === 'response' ? 'result' : 'params';
  const holder = message[where]?.shape;
  if (holder === undefined) return;
  refuseRepeats(holder, where);
  // Other methods and answers may use any names; `_meta` means the same everywhere.
  for (const { key } of holder.members) {
    if (protocolNames.has(key)) continue;
    const reading = findReading(key, namesByFoldedName);
    const name = reading === undefined ? undefined : namesByFoldedName.get(reading);
    if (name !== undefined && name !== key && (calls || notifies || name === '_meta')) {
      throw new MessageError(`${where}.${JSON.stringify(key)} is not a name of the protocol; write "${name}"`, false);
    }
  }
  if (message.meta !== undefined) refuseMetaVariants(message.meta, `${where}._meta`);
}

function refuseMetaVariants(meta: ObjectShape, where: string): void {
  refuseRepeats(meta, where);
  // Exact names, each there once, cannot be spellings of each other.
  if (meta.members.every(({ key }) => reservedMetaKeys.has(key) && key !== relatedTaskKey)) return;
  if (hasTwinKeys(meta.members.map(({ key }) => key))) {
    throw new MessageError(`${where} has a key in two spellings`, false);
  }
  for (const { key } of meta.members) {
    if (!reservedMetaKeys.has(key) && findReading(key, foldedMetaKeys) !== undefined) {
      throw new MessageError(`${where}.${JSON.stringify(key)} is not a name of the protocol`, false);
    }
  }
  // The task id is used like a handle of ours: there must be exactly one.
  const task = findMember(meta, relatedTaskKey)?.shape?.members.filter(({ key }) => readsAs(key, 'taskid')) ?? [];
  if (task.length > 1 || (task[0] !== undefined && task[0].key !== 'taskId')) {
    throw new MessageError(`${where}."${relatedTaskKey}" must name one "taskId"`, false);
  }
}

const reservedMetaKeys = new Set([
  'progressToken',
  'io.modelcontextprotocol/protocolVersion',
  'io.modelcontextprotocol/clientCapabilities',
  'io.modelcontextprotocol/clientInfo',
  'io.modelcontextprotocol/logLevel',
  'io.modelcontextprotocol/subscriptionId',
  relatedTaskKey,
]);
const foldedMetaKeys = new Set([...reservedMetaKeys].map(foldKey));

function refuseRepeats(shape: ObjectShape, where: string): void {
  const { members } = shape;
  // Quadratic comparison is cheaper than a set for a few members.
  if (members.length > 16) {
    if (new Set(members.map((member) => member.key)).size < members.length) {
      throw new MessageError(`${where} has a key twice`, false);
    }
    return;
  }
  for (let i = 1; i < members.length; i++) {
    for (let j = 0; j < i; j++) {
      if (members[i]?.key === members[j]?.key)
        throw new MessageError(`${where}."${members[i]?.key}" occurs twice`, false);
    }
  }
}
