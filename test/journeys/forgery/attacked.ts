import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { request } from 'node:http';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { controlSocketPath } from '../../../src/entrances/control/socket-path.ts';
import { type CreatedSession, type RunningAmbit, repository, startAmbit } from '../start-ambit.ts';

const fixtures = join(repository, 'test/fixtures/recorder');
export const stdioRecorder = { command: process.execPath, args: [join(fixtures, 'stdio.js')] };

export interface RecordedRequest {
  readonly method: string;
  readonly url: string;
  /** Names and values in turn, as they came. */
  readonly headers: readonly string[];
  readonly body: string;
}

/** A running gateway with a recorder behind each kind of transport: `pipe` and `tube` by stdio, `web` by HTTP. */
export interface Attacked {
  readonly ambit: RunningAmbit;
  readonly pipe: string;
  readonly tube: string;
  readonly web: string;
  open(draft?: Record<string, unknown>): Promise<CreatedSession>;
  /** Asks the control API, as the command line does, without starting a process for each question. */
  control<T>(method: string, path: string, body?: unknown): Promise<T>;
  /** Every request the HTTP recorder has had so far. */
  recordedOverHttp(): Promise<RecordedRequest[]>;
  stop(): Promise<void>;
}

type Config = Record<string, unknown> & { readonly servers?: Record<string, unknown> };

/** `config` may need the address of the HTTP recorder. */
export async function startAttacked(
  config: Config | ((web: string) => Config) = {},
  env: NodeJS.ProcessEnv = {},
): Promise<Attacked> {
  const recorder = await startHttpRecorder();
  const web = `${recorder.url}/mcp`;
  const { servers, ...rest } = typeof config === 'function' ? config(web) : config;
  // Told nothing, so that what an upstream sees of our keys can only be what the caller smuggled past us.
  const pipe = { ...stdioRecorder, context: 'none' };
  const ambit = await startAmbit(
    { servers: { pipe, tube: pipe, web: { url: web, context: 'none' }, ...servers }, ...rest },
    env,
  );
  return {
    ambit,
    pipe: ambit.mcp('pipe'),
    tube: ambit.mcp('tube'),
    web: ambit.mcp('web'),
    open: (draft = {}) => control(ambit, 'POST', '/api/v1/sessions', { trustLevel: 'direct', ...draft }),
    control: (method, path, body) => control(ambit, method, path, body),
    recordedOverHttp: async () => (await (await fetch(`${recorder.url}/recorded`)).json()) as RecordedRequest[],
    async stop() {
      await ambit.stop();
      await recorder.stop();
    },
  };
}

function control<T>(ambit: RunningAmbit, method: string, path: string, body?: unknown): Promise<T> {
  return new Promise((resolve, reject) => {
    const socketPath = controlSocketPath(ambit.dataDir, process.env);
    const headers = body === undefined ? {} : { 'content-type': 'application/json' };
    const sending = request({ socketPath, method, path, headers }, async (response) => {
      const chunks: Buffer[] = [];
      for await (const chunk of response) chunks.push(chunk as Buffer);
      const text = Buffer.concat(chunks).toString();
      if ((response.statusCode ?? 500) < 400) resolve(JSON.parse(text) as T);
      else reject(new Error(text));
    });
    sending.on('error', reject);
    sending.end(body === undefined ? undefined : JSON.stringify(body));
  });
}

async function startHttpRecorder(): Promise<{ url: string; stop(): Promise<void> }> {
  const child = spawn(process.execPath, [join(fixtures, 'http.js')], { stdio: ['ignore', 'pipe', 'inherit', 'ipc'] });
  const exited = once(child, 'exit');
  const [line] = (await once(createInterface({ input: child.stdout! }), 'line')) as [string];
  return {
    url: (JSON.parse(line) as { url: string }).url,
    async stop() {
      child.kill('SIGTERM');
      await exited;
    },
  };
}
