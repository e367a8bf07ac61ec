import { expect, test } from 'vitest';
import { stdioRecorder } from '../../fixtures/start-recorder.ts';
import { credentialGateways, secret } from '../../upstreams/auth/credential-gateway.ts';

const gateways = credentialGateways();

test('S2: whoever is added under the name of a removed user is given nothing of theirs', async () => {
  const gateway = await gateways.start({ pipe: stdioRecorder });
  await gateway.people.users.add('ada');
  await gateway.people.users.add('bea');
  for (const userId of ['ada', 'bea']) await gateway.credentials.set({ userId, server: 'pipe', env: 'OWN' }, secret);
  await gateway.people.users.remove('ada');
  expect(gateway.credentials.list().map(({ userId }) => userId)).toEqual(['bea']);
  await gateway.people.users.add('ada');
  const { call } = await gateways.clientOf(gateway, 'ada', 'pipe');
  expect(await call('environment')).not.toContain(secret);
});
