import { afterAll, afterEach, beforeAll, describe } from 'vitest';
import { fixtureServer, startWatchedAmbit, type WatchedAmbit } from '../start-watched-ambit.ts';
import { testBatches } from './batches.ts';
import { testControlSocket } from './control-socket.ts';
import { testHttpRequests } from './http-requests.ts';
import { testJournalSize } from './journal-size.ts';
import { testMutations } from './mutations-over-http.ts';
import { testSubscriptions } from './subscriptions.ts';
import { testWrongTypes } from './wrong-types-over-http.ts';

// A gateway costs more to start than most of these attacks: they share one.
let ambit: WatchedAmbit;
const given = () => ambit;

beforeAll(async () => {
  ambit = await startWatchedAmbit({
    listen: {
      allowedHosts: ['any-port.example', 'one-port.example:8443'],
      allowedOrigins: ['https://app.example', 'https://dev.example:8443'],
      publicUrl: 'https://gateway.example/behind/a/proxy',
    },
    servers: { told: fixtureServer('says-what-it-is-told.js'), taking: fixtureServer('accepts-subscriptions.js') },
  });
  await ambit.expectHealthy();
});
afterEach(() => ambit.expectHealthy());
afterAll(() => ambit?.stop());

describe('HTTP requests', () => testHttpRequests(given));
describe('the control socket', () => testControlSocket(given));
describe('messages with values of the wrong type', () => testWrongTypes(given));
describe('damaged messages', () => testMutations(given));
describe('batches', () => testBatches(given));
describe('subscriptions', () => testSubscriptions(given));
describe('the journal', () => testJournalSize(given));
