import { elementsAt, type Member, memberOf, type Shape, shapeAt, stringAt } from './json/scan.ts';
import type { Message } from './message.ts';
import { ProtocolFault } from './protocol-fault.ts';

/** The most that a client may say of itself, in bytes: it is kept for as long as the client, and said again to servers. */
export const mostAboutClient = 65_536;
/** The most resources that one client can subscribe to, in either era, and the most characters of each URI. */
export const mostSubscriptions = 1000;
export const longestUri = 8192;
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
  if (message.method === 'subscriptions/listen') assertSubscriptions(message);
  let described = 0;
  for (const { key, start, end } of message.meta?.members ?? [])
    if (key.startsWith(ofProtocol)) described += end - start;
  assertWithin(described, mostAboutClient, `what _meta says under ${ofProtocol}`);
}

/** Each of these can become a request to a server. A key that stands twice counts twice: readers differ in which they take. */
function assertSubscriptions({ bytes, params }: Message): void {
  const filters = named(params?.shape, 'notifications').map((filter) => shapeAt(bytes, filter));
  const lists = filters.flatMap((filter) => named(filter, 'resourceSubscriptions'));
  const uris = lists.flatMap((list) => elementsAt(bytes, list).map((span) => ({ ...list, ...span, shape: undefined })));
  if (uris.length > mostSubscriptions) {
    throw new ProtocolFault(-32602, 200, `Invalid params: a listen request may name ${mostSubscriptions} resources`);
  }
  for (const member of uris) {
    const uri = stringAt(bytes, member);
    if (uri !== undefined && uri.length <= longestUri) continue;
    const what = `a URI in resourceSubscriptions must be a string of ${longestUri} characters at most`;
    throw new ProtocolFault(-32602, 200, `Invalid params: ${what}`);
  }
}

function named(shape: Shape | undefined, key: string): Member[] {
  return (shape?.members ?? []).filter((member) => member.key === key);
}

function assertWithin(bytes: number, most: number, what: string): void {
  if (bytes <= most) return;
  throw new ProtocolFault(-32602, 200, `Invalid params: ${what} has ${bytes} bytes, and may have ${most}`);
}
