import { join } from 'node:path';
import { startRecorder, stdioRecorder } from '../../fixtures/start-recorder.ts';
import { requestControl } from '../request-control.ts';
import { startAmbit } from '../start-ambit.ts';
import { type EmbeddedAmbit, startEmbeddedAmbit } from '../start-embedded-ambit.ts';

export interface RecordedRequest {
  readonly method: string;
  readonly url: string;
  /** Names and values in turn, as they came. */
  readonly headers: readonly string[];
  readonly body: string;
}

/** A running gateway with a recorder behind each kind of transport: `pipe` and `tube` by stdio, `web` by HTTP. */
export interface RecordedGateway extends Pick<EmbeddedAmbit, 'open' | 'sessions' | 'end' | 'stop'> {
  readonly ambit: Pick<EmbeddedAmbit, 'url' | 'dataDir' | 'mcp'>;
  readonly pipe: string;
  readonly tube: string;
  readonly web: string;
  /** Every request the HTTP recorder has had so far. */
  recordedOverHttp(): Promise<RecordedRequest[]>;
}

type Config = Record<string, unknown> & { readonly servers?: Record<string, unknown> };

/** `config` may need the address of the HTTP recorder; an environment of its own takes a process of its own. */
export async function startRecordedGateway(
  config: Config | ((web: string) => Config) = {},
  env?: NodeJS.ProcessEnv,
): Promise<RecordedGateway> {
  const recorder = await startRecorder();
  const { url: web } = recorder;
  const { servers, ...rest } = typeof config === 'function' ? config(web) : config;
  // Told nothing, so that what an upstream sees of our keys can only be what the caller smuggled past us.
  const pipe = { ...stdioRecorder, context: 'none' };
  const whole = { servers: { pipe, tube: pipe, web: { url: web, context: 'none' }, ...servers }, ...rest };
  const ambit = await (env === undefined ? startEmbeddedAmbit(whole) : startApart(whole, env));
  const { open, sessions, end } = ambit;
  return {
    ambit,
    pipe: ambit.mcp('pipe'),
    tube: ambit.mcp('tube'),
    web: ambit.mcp('web'),
    open,
    sessions,
    end,
    recordedOverHttp: async () => (await (await fetch(new URL('/recorded', web))).json()) as RecordedRequest[],
    async stop() {
      await ambit.stop();
      await recorder.stop();
    },
  };
}

async function startApart(config: Record<string, unknown>, env: NodeJS.ProcessEnv): Promise<EmbeddedAmbit> {
  const { url, dataDir, mcp, session, stop } = await startAmbit(config, env);
  const socket = join(dataDir, 'control.sock');
  return {
    url,
    dataDir,
    mcp,
    open: (draft) => session({ ...draft }),
    async sessions() {
      const { sessions } = await requestControl<{ sessions: { id: string }[] }>(socket, 'GET', '/api/v1/sessions');
      return sessions.map(({ id }) => id);
    },
    end: (id) => requestControl(socket, 'DELETE', `/api/v1/sessions/${id}`),
    stop: async () => void (await stop()),
  };
}
