import { type Message, MessageFault } from './message.ts';
import type { Shape } from './scan.ts';

/**
 * Two readers of `{"name": "a", "Name": "b"}` may see two different tools. What a caller sends is therefore refused
 * when a name that the protocol gives meaning to occurs twice or in another spelling; a tool's own arguments may
 * have what they like.
 */
const paramNames = new Set(
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
const canonical = new Map(paramNames);

const namespaces =
  /^(?:initialize$|ping$|(?:server|tools|prompts|resources|completion|logging|subscriptions|tasks|notifications|sampling|elicitation|roots)\/)/;

export function refuseAmbiguousKeys(message: Message): void {
  const params = message.params?.shape;
  if (params === undefined) return;
  refuseRepeats(params, 'params');
  if (namespaces.test(message.method)) {
    for (const { key } of params.members) {
      const name = canonical.get(key.toLowerCase());
      if (name !== undefined && name !== key) {
        throw new MessageFault(`params."${key}" is not a name of the protocol; write "${name}"`, false);
      }
    }
  }
  if (message.meta !== undefined) refuseMetaVariants(message.meta);
}

function refuseMetaVariants(meta: Shape): void {
  refuseRepeats(meta, 'params._meta');
  const seen = new Set<string>();
  for (const { key } of meta.members) {
    const lower = key.toLowerCase();
    if (seen.has(lower)) throw new MessageFault(`params._meta has "${lower}" in two spellings`, false);
    seen.add(lower);
    const reserved = lower.startsWith('io.modelcontextprotocol/') || lower === 'progresstoken';
    if (reserved && !reservedMeta.has(key) && reservedLower.has(lower)) {
      throw new MessageFault(`params._meta."${key}" is not a name of the protocol`, false);
    }
  }
}

const reservedMeta = new Set([
  'progressToken',
  'io.modelcontextprotocol/protocolVersion',
  'io.modelcontextprotocol/clientCapabilities',
  'io.modelcontextprotocol/clientInfo',
  'io.modelcontextprotocol/logLevel',
  'io.modelcontextprotocol/subscriptionId',
  'io.modelcontextprotocol/related-task',
]);
const reservedLower = new Set([...reservedMeta].map((key) => key.toLowerCase()));

function refuseRepeats(shape: Shape, where: string): void {
  const { members } = shape;
  // Quadratic over a handful of members is cheaper than a set; a crowd gets the set.
  if (members.length > 16) {
    if (new Set(members.map((member) => member.key)).size < members.length) {
      throw new MessageFault(`${where} has a key twice`, false);
    }
    return;
  }
  for (let i = 1; i < members.length; i++) {
    for (let j = 0; j < i; j++) {
      if (members[i]?.key === members[j]?.key)
        throw new MessageFault(`${where}."${members[i]?.key}" occurs twice`, false);
    }
  }
}
