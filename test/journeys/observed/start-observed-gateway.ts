import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ConfigInput, createGateway, type EmbeddedGateway } from '../../../src/index.ts';
import type { LogFields } from '../../../src/observability/log/log.ts';
import { formatTextLine } from '../../../src/observability/log/stderr-log.ts';
import { startRecorder, stdioRecorder } from '../../fixtures/start-recorder.ts';

const pipe = stdioRecorder;

export interface ObservedGateway {
  readonly gateway: EmbeddedGateway;
  readonly url: string;
  /** Everything that was logged, by level. */
  readonly lines: { readonly level: string; readonly line: string }[];
  metrics(): Promise<string>;
  /** The journal so far. */
  journal(): string;
  /** Once everything is written: what the journal says. */
  closed(): Promise<string>;
  /** The requests that reached the servers over HTTP. */
  overHttp(): Promise<{ readonly headers: string[]; readonly body: string }[]>;
}

/** Recorders of both eras over stdio, one that is told nothing, and one over HTTP; all that is said is kept. */
export async function startObservedGateway(config: Partial<ConfigInput> = {}): Promise<ObservedGateway> {
  const folder = mkdtempSync(join(tmpdir(), 'ambit-observed-'));
  const web = await startRecorder();
  const lines: { level: string; line: string }[] = [];
  const at = (level: string) => (event: string, fields?: LogFields) =>
    void lines.push({ level, line: formatTextLine(event, fields) });
  const gateway = await createGateway({
    config: {
      version: 1,
      ...config,
      sessions: { defaultTrust: 'direct', ...config.sessions },
      servers: {
        pipe,
        old: { ...pipe, era: 'handshake' },
        new: { ...pipe, era: 'modern' },
        plain: { ...pipe, context: 'none' },
        web: { url: web.url, context: 'full' },
        ...config.servers,
      },
    },
    dataDir: join(folder, 'data'),
    log: { info: at('info'), warn: at('warn'), debug: at('debug') },
  });
  const { url } = await gateway.listen({ port: 0 });
  const journal = () => readFileSync(join(folder, 'data/journal/journal.jsonl'), 'utf8');
  return {
    gateway,
    url,
    lines,
    journal,
    metrics: async () => (await fetch(`${url}/metrics`)).text(),
    overHttp: async () =>
      (await fetch(new URL('/recorded', web.url))).json() as ReturnType<ObservedGateway['overHttp']>,
    async closed() {
      await gateway.close();
      await web.stop();
      const written = journal();
      rmSync(folder, { recursive: true, force: true });
      return written;
    },
  };
}
