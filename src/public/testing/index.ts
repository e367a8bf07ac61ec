import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ConfigInput } from '../../config/schema/schema.ts';
import { createGateway, type EmbeddedGateway } from '../create-gateway.ts';

/**
 * A gateway for tests: in memory but for a temporary folder that goes with it. Sessions are direct unless they ask
 * otherwise, and warnings are kept silent.
 */
export async function createTestGateway(config: Omit<ConfigInput, 'version'>): Promise<EmbeddedGateway> {
  const dataDir = await mkdtemp(join(tmpdir(), 'ambit-gateway-'));
  const sessions = Object.assign({ defaultTrust: 'direct' }, config.sessions);
  const draft = { store: { kind: 'memory' }, ...config, version: 1, sessions } as ConfigInput;
  const removeFolder = () => rm(dataDir, { recursive: true, force: true });
  try {
    const gateway = await createGateway({ config: draft, dataDir, log: { info() {}, warn() {} } });
    return { ...gateway, close: () => gateway.close().finally(removeFolder) };
  } catch (error) {
    await removeFolder();
    throw error;
  }
}

export { describeSessionStore } from './store-suite/describe-session-store.ts';
export type { OpenOptions, OpenStore, StoreHarness, SuiteRunner } from './store-suite/harness.ts';
