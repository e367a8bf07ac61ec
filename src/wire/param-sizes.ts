import type { Message } from './message.ts';
import { ProtocolFault } from './protocol-fault.ts';
import { memberOf } from './scan.ts';

/** The most that a client may say of itself, in bytes: it is kept for as long as the client, and said again to servers. */
export const mostAboutClient = 65_536;
const longestLevel = 64;
const ofProtocol = 'io.modelcontextprotocol/';

/** Refuses a request with more in it than is kept of one: many small requests must not fill the memory. */
export function assertParamSizes(message: Message): void {
  if (message.kind !== 'request') return;
  if (message.method === 'initialize') assertWithin(message.bytes.length, mostAboutClient, 'an initialize request');
  if (message.method === 'logging/setLevel') {
    const level = memberOf(message.params?.shape, 'level');
    if (level !== undefined) assertWithin(level.end - level.start, longestLevel, 'params.level');
  }
  let described = 0;
  for (const { key, start, end } of message.meta?.members ?? [])
    if (key.startsWith(ofProtocol)) described += end - start;
  assertWithin(described, mostAboutClient, `what _meta says under ${ofProtocol}`);
}

function assertWithin(bytes: number, most: number, what: string): void {
  if (bytes <= most) return;
  throw new ProtocolFault(-32602, 200, `Invalid params: ${what} has ${bytes} bytes, and may have ${most}`);
}
