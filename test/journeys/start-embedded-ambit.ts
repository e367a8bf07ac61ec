import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ConfigInput, createGateway, type EmbeddedGateway, type SessionDraft } from '../../src/index.ts';
import type { CreatedSession } from './start-ambit.ts';

/** A listening gateway, whichever process it is in. */
export interface EmbeddedAmbit {
  readonly url: string;
  readonly dataDir: string;
  mcp(server: string): string;
  /** A direct one unless it says otherwise. */
  open(draft?: SessionDraft): Promise<CreatedSession>;
  /** The ids of all sessions there are. */
  sessions(): Promise<string[]>;
  end(id: string): Promise<void>;
  stop(): Promise<void>;
}

/** As `ambit serve`, in this process: for what does not ask for one of its own. */
export async function startEmbeddedAmbit(config: Record<string, unknown>): Promise<EmbeddedAmbit> {
  const folder = await mkdtemp(join(tmpdir(), 'ambit-here-'));
  const dataDir = join(folder, 'data');
  const gateway = await createQuietGateway(dataDir, config as QuietConfig);
  const { url } = await gateway.listen({ port: 0 });
  return {
    url,
    dataDir,
    mcp: (server) => `${url}/mcp/${server}`,
    open: (draft) => gateway.createSession({ trustLevel: 'direct', ...draft }),
    sessions: async () => (await gateway.listSessions()).map(({ id }) => id),
    end: async (id) => void (await gateway.endSession(id)),
    async stop() {
      await gateway.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

type QuietConfig = Omit<ConfigInput, 'version'>;

/** A gateway in this process that logs nothing. */
export function createQuietGateway(dataDir: string, config: QuietConfig): Promise<EmbeddedGateway> {
  return createGateway({ config: { version: 1, ...config }, dataDir, log: { info() {}, warn() {} } });
}
