import { afterAll, afterEach, beforeAll, describe } from 'vitest';
import { fixture, type Patient, startPatient } from '../start-watched-ambit.ts';
import { testBatches } from './batches.ts';
import { testControlSocket } from './control-socket.ts';
import { testHttpRequests } from './http-requests.ts';
import { testJournalSize } from './journal-size.ts';
import { testMutations } from './mutations-over-http.ts';
import { testSubscriptions } from './subscriptions.ts';
import { testWrongTypes } from './wrong-types-over-http.ts';

// A gateway costs more to start than most of these attacks: they share one.
let patient: Patient;
const given = () => patient;

beforeAll(async () => {
  patient = await startPatient({
    listen: {
      allowedHosts: ['any-port.example', 'one-port.example:8443'],
      allowedOrigins: ['https://app.example', 'https://dev.example:8443'],
      publicUrl: 'https://gateway.example/behind/a/proxy',
    },
    servers: { told: fixture('says-what-it-is-told.js'), taking: fixture('accepts-subscriptions.js') },
  });
  await patient.expectWell();
});
afterEach(() => patient.expectWell());
afterAll(() => patient?.stop());

describe('HTTP requests', () => testHttpRequests(given));
describe('the control socket', () => testControlSocket(given));
describe('messages with values of the wrong type', () => testWrongTypes(given));
describe('damaged messages', () => testMutations(given));
describe('batches', () => testBatches(given));
describe('subscriptions', () => testSubscriptions(given));
describe('the journal', () => testJournalSize(given));
