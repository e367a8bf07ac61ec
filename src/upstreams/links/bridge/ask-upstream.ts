import type { Channel } from '../../../protocol/channel.ts';
import { type Message, readMessage } from '../../../protocol/message.ts';
import type { Caller } from '../caller.ts';
import type { Link, UpstreamCall } from '../link.ts';
import { noReplyError } from '../upstream-errors.ts';

/** A channel that is gone from the start: questions of a server during a call of Ambit's own reach nobody. */
export const closedChannel: Channel = {
  owner: {},
  isGone: () => true,
  emit: () => true,
  onDrain() {},
  onGone() {},
  close() {},
};

/** Creates a call of Ambit's own. `params` is JSON text. */
export function createOwnCall(method: string, params: string, channel: Channel = closedChannel): UpstreamCall {
  const message = readMessage(
    Buffer.from(`{"jsonrpc":"2.0","id":"ambit","method":${JSON.stringify(method)},"params":${params}}`),
  );
  return { message, edits: [], channel, headers: () => ({}), caller: undefined, acting: undefined, cancelOnGone: true };
}

export async function askUpstream(link: Link, method: string, params = '{}', caller?: Caller): Promise<Message> {
  const reply = await link.request({ ...createOwnCall(method, params), caller });
  if (reply.kind !== 'message') throw noReplyError(link.server, method);
  return readMessage(reply.bytes);
}
