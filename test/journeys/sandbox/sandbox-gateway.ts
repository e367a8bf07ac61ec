import { mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { EmbeddedGateway, SessionDraft } from '../../../src/index.ts';
import { createRawClient, type RawClient } from '../../gateway/raw-client.ts';
import { createQuietGateway } from '../start-embedded-ambit.ts';
import { readJournal } from '../start-probed-ambit.ts';

/** A folder with a gateway and the clients of its sessions; `close` ends and removes all of it. */
export function createSandboxFolder(name: string) {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), `ambit-${name}-`)));
  const dataDir = join(folder, 'data');
  const clients: RawClient[] = [];
  let gateway: EmbeddedGateway | undefined;
  return {
    folder,
    dataDir,
    async open(config: Parameters<typeof createQuietGateway>[1]): Promise<EmbeddedGateway> {
      gateway = await createQuietGateway(dataDir, config);
      return gateway;
    },
    /** A new session at a server. */
    async use(server: string, draft: SessionDraft, era: 'modern' | 'handshake' = 'modern') {
      const opened = gateway as EmbeddedGateway;
      const { id } = await opened.createSession(draft);
      const client = await createRawClient(opened.connect(id, server), era);
      clients.push(client);
      return { id, client };
    },
    journal: () => readJournal(dataDir) as unknown as Record<string, unknown>[],
    async close(): Promise<void> {
      for (const client of clients) await client.close();
      await gateway?.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
