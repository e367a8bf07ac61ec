import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { connectRawClient, readRefusalCode } from '../journeys/abandoned/raw-client.ts';
import { taggedProcesses } from '../sandbox/tagged-processes.ts';
import { createSharedData } from './shared-data.ts';
import { createPairs, erasOn, storeKinds, untilProcessesGone } from './shared-stores.ts';

const program = join(import.meta.dirname, '..', 'journeys', 'abandoned', 'fixtures', 'upstream.js');
const servers = { it: { command: process.execPath, args: [program] }, other: { command: 'nothing' } };
const data = createSharedData();
const openPair = createPairs(data);

describe.each(storeKinds)('two gateways on one %s store', (kind) => {
  test.each(erasOn(kind))(
    'L16: what one ends, the other ends with all that is live of it, in the %s era',
    async (era) => {
      const [here, there] = await openPair(kind, { servers });
      const { id, token } = await here.open();
      const visitor = await connectRawClient(era, { url: there.mcp('it'), token });
      await visitor.whoami();
      const [call, stream] = [visitor.call('hang'), visitor.stream()];
      await Promise.all([call.begun, stream.begun]);
      expect(taggedProcesses(data.folder)).toHaveLength(1);
      expect(await here.gateway.sessions.end(id)).toBe(true);
      expect(readRefusalCode(await call.answered)).toBe('SESSION_ENDED');
      await stream.closed;
      await untilProcessesGone(data);
      expect(there.gateway.sessions.get(id)).toBeUndefined();
      expect(readRefusalCode(await visitor.call('whoami').answered)).toBe('SESSION_ENDED');
    },
  );

  test('L16: what one narrows, the other keeps within the new bounds', async () => {
    const [here, there] = await openPair(kind, { servers });
    const { id, token } = await here.open();
    const visitor = await connectRawClient('modern', { url: there.mcp('it'), token });
    const call = visitor.call('hang');
    await call.begun;
    await here.gateway.restrictSession(id, { servers: ['other'] });
    expect(readRefusalCode(await call.answered)).toBe('SERVER_NOT_AVAILABLE');
    await untilProcessesGone(data);
    expect(readRefusalCode(await visitor.call('whoami').answered)).toBe('SERVER_NOT_AVAILABLE');
    expect(there.gateway.sessions.get(id)?.servers).toEqual(['other']);
  });
});
