import { readsAs } from '../../protocol/json/fold-key.ts';
import { rawAt } from '../../protocol/json/scan.ts';
import type { Message } from '../../protocol/message.ts';

type Values = Readonly<Record<string, unknown>>;

/**
 * Whether clients can read the result of a call. Those that check what they get drop the whole of a result in which one
 * part is not as MCP says, and all that was put into it.
 */
export function isReadableResult({ bytes, result }: Message): boolean {
  const members = result?.shape?.members ?? [];
  // Of two of one name each reader takes another.
  if (result === undefined || members.filter(({ key }) => readsAs(key, 'content')).length !== 1) return false;
  const { content, isError, structuredContent, _meta } = JSON.parse(rawAt(bytes, result)) as Values;
  return (
    Array.isArray(content) &&
    content.every(isReadableBlock) &&
    (isError === undefined || typeof isError === 'boolean') &&
    isPerhapsObject(structuredContent) &&
    isPerhapsObject(_meta)
  );
}

function isReadableBlock(block: unknown): boolean {
  if (!isObject(block) || !isPerhapsObject(block['_meta']) || !isPerhapsObject(block['annotations'])) return false;
  switch (block['type']) {
    case 'text':
      return isText(block['text']);
    case 'image':
    case 'audio':
      return isBase64(block['data']) && isText(block['mimeType']);
    case 'resource_link':
      return isText(block['uri']) && isText(block['name']);
    case 'resource':
      return isReadableResource(block['resource']);
    default:
      return false;
  }
}

function isReadableResource(resource: unknown): boolean {
  if (!isObject(resource) || !isText(resource['uri']) || !isPerhapsObject(resource['_meta'])) return false;
  return isText(resource['text']) || isBase64(resource['blob']);
}

function isBase64(value: unknown): boolean {
  return isText(value) && !/[^A-Za-z0-9+/=\s]/.test(value);
}

function isText(value: unknown): value is string {
  return typeof value === 'string';
}

function isObject(value: unknown): value is Values {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isPerhapsObject(value: unknown): boolean {
  return value === undefined || isObject(value);
}
