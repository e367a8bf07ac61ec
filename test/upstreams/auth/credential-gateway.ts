import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach } from 'vitest';
import { type ConfigInput, createGateway, type EmbeddedGateway } from '../../../src/index.ts';
import type { SessionDraft, SessionView } from '../../../src/sessions/session.ts';
import { createRawClient, type RawClient } from '../../gateway/raw-client.ts';

export const secret = 'planted-secret-value-4711';

/** Gateways on one data directory, and clients of the users they serve; all of it goes with the test. */
export interface CredentialGateways {
  readonly folder: string;
  /** All that was logged, at every level. */
  readonly lines: readonly string[];
  start(servers: ConfigInput['servers'], more?: Partial<ConfigInput>): Promise<EmbeddedGateway>;
  clientOf(
    gateway: EmbeddedGateway,
    draft: SessionDraft | string,
    server?: string,
    era?: 'modern' | 'handshake',
  ): Promise<RawClient & { readonly session: SessionView }>;
  /** Closed when the test is over, the last first. */
  closing<T extends { close(): unknown }>(made: T): T;
}

export function credentialGateways(): CredentialGateways {
  let folder = '';
  let lines: string[] = [];
  const open: { close(): unknown }[] = [];
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'ambit-carried-'));
    lines = [];
  });
  afterEach(async () => {
    for (const each of open.splice(0).reverse()) await each.close();
    rmSync(folder, { recursive: true, force: true });
  });
  function closing<T extends { close(): unknown }>(made: T): T {
    open.push(made);
    return made;
  }
  const say = (...said: unknown[]) => void lines.push(JSON.stringify(said));
  return {
    get folder() {
      return folder;
    },
    get lines() {
      return lines;
    },
    closing,
    start: async (servers, more = {}) =>
      closing(
        await createGateway({
          config: { version: 1, sessions: { defaultTrust: 'direct' }, servers, ...more },
          dataDir: join(folder, 'data'),
          log: { info: say, warn: say, debug: say },
        }),
      ),
    async clientOf(gateway, draft, server, era = 'modern') {
      const session = await gateway.createSession(typeof draft === 'string' ? { userId: draft } : draft);
      const client = closing(await createRawClient(gateway.connect(session.id, server), era));
      return { ...client, session };
    },
  };
}
