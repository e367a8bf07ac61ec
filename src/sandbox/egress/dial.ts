import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

const connectMs = 10_000;

/** Connects to the first of these addresses that answers. Only addresses: nothing is resolved here. */
export async function dial(addresses: readonly string[], port: number, signal: AbortSignal): Promise<Socket> {
  let failure: unknown = new Error('no address');
  for (const host of addresses) {
    const socket = connect({ host, port, allowHalfOpen: true, noDelay: true });
    try {
      await once(socket, 'connect', { signal: AbortSignal.any([signal, AbortSignal.timeout(connectMs)]) });
      // From here on whoever uses it listens; until then an error must not end the gateway.
      return socket.on('error', () => {});
    } catch (error) {
      socket.on('error', () => {}).destroy();
      failure = error;
      if (signal.aborted) break;
    }
  }
  throw failure;
}
