import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ConfigInput } from '../../config/schema/schema.ts';
import { createGateway, type EmbeddedGateway } from '../create-gateway.ts';

/**
 * Creates a gateway for tests. It keeps everything in memory and in a temporary folder that is removed when it closes.
 * Sessions are direct by default, and warnings are not logged.
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
