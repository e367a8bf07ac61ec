import type { Reply } from '../protocol/channel.ts';
import type { Arrived } from './exchange.ts';

/** Notes when a server was asked and when it answered, where that becomes a span of its own. */
export async function timeUpstream(
  { entry }: Pick<Arrived, 'entry'>,
  server: string,
  ask: () => Promise<Reply>,
): Promise<Reply> {
  const from = performance.now();
  try {
    return await ask();
  } finally {
    entry.asked = { server, from, until: performance.now() };
  }
}
