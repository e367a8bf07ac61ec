import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { AnswerOf, RequestOf, RouteName } from '../../../src/entrances/control/routes.ts';
import { createGateway, type EmbeddedGateway } from '../../../src/index.ts';

/** A gateway whose configuration is a file, asked over its control API. */
export interface AdminGateway {
  readonly folder: string;
  readonly configFile: string;
  readonly gateway: EmbeddedGateway;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  read(): string;
  /** Sends a request and returns its answer, which may be a problem. */
  send(method: string, path: string, body?: unknown): Promise<{ readonly status: number; readonly body: Answer }>;
  /** Sends a request that must succeed. */
  ask<Name extends RouteName>(name: Name, request?: RequestOf<Name>): Promise<AnswerOf<Name>>;
  /** Signs in a console, and returns the headers of its requests. */
  signIn(role: 'admin' | 'viewer'): Promise<Readonly<Record<string, string>>>;
  close(): Promise<void>;
}

type Answer = { readonly code?: string; readonly detail?: string } & Record<string, unknown>;

export async function openAdminGateway(text: string): Promise<AdminGateway> {
  const folder = mkdtempSync(join(tmpdir(), 'ambit-admin-'));
  mkdirSync(join(folder, 'etc'));
  const configFile = join(folder, 'etc', 'ambit.yaml');
  writeFileSync(configFile, text, { mode: 0o644 });
  const dataDir = join(folder, 'data');
  const gateway = await createGateway({ config: configFile, dataDir, log: { info() {}, warn() {} } });
  const { url } = await gateway.listen({ port: 0 });
  const token = readFileSync(join(dataDir, 'admin-token'), 'utf8').trim();
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
  const send: AdminGateway['send'] = async (method, path, body) => {
    const sent = body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) };
    const response = await fetch(`${url}/api/v1${path}`, { method, headers, ...sent });
    return { status: response.status, body: (await response.json()) as Answer };
  };
  return {
    ...{ folder, configFile, gateway, url, headers, send },
    read: () => readFileSync(configFile, 'utf8'),
    async ask(name, { id = '', query, body } = {}) {
      const [method = '', template = ''] = name.split(' ');
      const search = new URLSearchParams(query as Record<string, string> | undefined);
      const path = template.replace('/api/v1', '').replace('{id}', encodeURIComponent(id));
      const answer = await send(method, `${path}?${search}`, body);
      if (answer.status >= 400) throw new Error(`${answer.body.code}: ${answer.body.detail}`);
      return answer.body as AnswerOf<typeof name>;
    },
    async signIn(role) {
      const { body } = await send('POST', '/consoles/links', { role });
      const code = new URL(String(body['url'])).hash.replace('#code=', '');
      const response = await fetch(`${url}/api/v1/consoles`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ code }),
      });
      const { token } = (await response.json()) as { readonly token: string };
      return { authorization: `Bearer ${token}` };
    },
    async close() {
      await gateway.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
