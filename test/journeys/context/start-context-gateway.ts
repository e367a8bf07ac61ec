import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { decodeJwt } from 'jose';
import { expect } from 'vitest';
import type { EmbeddedGateway, SessionDraft } from '../../../src/index.ts';
import { type Message, readMessage } from '../../../src/protocol/message.ts';
import { isReservedKey } from '../../../src/protocol/reserved-meta.ts';
import { createReplayMemory, readContext } from '../../../src/public/sdk/index.ts';
import { startRecorder, stdioRecorder } from '../../fixtures/start-recorder.ts';
import { callModern, readToolText } from '../raw-mcp-client.ts';
import { createQuietGateway } from '../start-embedded-ambit.ts';
import { findKeyFile } from './find-key-file.ts';

/** Over stdio and over HTTP, servers that speak both eras, the older one, the newer one. */
export const servers = ['pipe', 'pipe-old', 'pipe-new', 'web', 'web-old', 'web-new'] as const;
export type Server = (typeof servers)[number];

export interface TestSession {
  readonly id: string;
  readonly token: string;
  /** The context that every tool must receive. */
  readonly context: {
    readonly sessionId: string;
    readonly userId: string;
    readonly agentId: string | undefined;
    readonly workspaceId: string | undefined;
    readonly trustLevel: string;
    readonly permissions: readonly string[];
  };
}

export interface ContextGateway {
  readonly gateway: EmbeddedGateway;
  readonly folder: string;
  readonly url: string;
  pathOf(workspaceId: string | undefined): string | undefined;
  /** The address of one server, or of all. */
  address(server?: Server): string;
  audience(server: Server): string;
  open(draft: SessionDraft): Promise<TestSession>;
  /** The message is told exactly this session, once, in `_meta` and nowhere else. */
  expectContext(raw: string, server: Server, session: TestSession): Promise<void>;
  /** Everything a server was ever sent in a session that is still open. */
  received(server: Server, session: TestSession): Promise<string[]>;
  /** The bodies and headers of all requests over HTTP. */
  overHttp(): Promise<{ readonly url: string; readonly headers: string[]; readonly body: string }[]>;
  close(): Promise<void>;
}

export async function startContextGateway(): Promise<ContextGateway> {
  const folder = mkdtempSync(join(tmpdir(), 'ambit-told-'));
  const web = await startRecorder();
  const pipe = stdioRecorder;
  const urlOf = (server: Server) => `${web.url}/${server}`;
  const eras = { '': 'auto', '-old': 'handshake', '-new': 'modern' } as const;
  const trust: ('direct' | 'sandboxed')[] = ['direct', 'sandboxed'];
  const config = Object.fromEntries(
    Object.entries(eras).flatMap(([end, era]) => [
      [`pipe${end}`, { ...pipe, era }],
      [`web${end}`, { url: urlOf(`web${end}` as Server), era, trust, context: 'full' as const }],
    ]),
  );
  const pathOf = (id: string | undefined) => (id === undefined ? undefined : join(folder, id));
  const gateway = await createQuietGateway(join(folder, 'data'), {
    sessions: { defaultTrust: 'direct' },
    servers: config,
    workspaces: {
      garden: { path: join(folder, 'garden'), create: true },
      kitchen: { path: join(folder, 'kitchen'), create: true },
    },
  });
  const { url } = await gateway.listen({ port: 0 });
  const keys = (await (await fetch(`${url}/.well-known/jwks.json`)).json()) as { keys: object[] };
  const audience = (server: Server) => (server.startsWith('web') ? urlOf(server) : `ambit:server:${server}`);
  const address = (server?: Server) => (server === undefined ? `${url}/mcp` : `${url}/mcp/${server}`);

  const overHttp: ContextGateway['overHttp'] = async () =>
    (await fetch(new URL('/recorded', web.url))).json() as ReturnType<ContextGateway['overHttp']>;

  return {
    gateway,
    folder,
    url,
    pathOf,
    address,
    audience,
    overHttp,
    async open(draft) {
      const { id, token } = await gateway.createSession(draft);
      const { userId = 'local', agentId, workspaceId, trustLevel = 'direct' } = draft;
      return { id, token, context: { sessionId: id, userId, agentId, workspaceId, trustLevel, permissions: [] } };
    },
    async expectContext(raw, server, session) {
      const message = readMessage(Buffer.from(raw));
      const ours = (message.meta?.members ?? []).filter(({ key }) => isReservedKey(key)).map(({ key }) => key);
      expect(ours, raw).toEqual(['ambit/context']);
      const plain = parseParams(message)._meta?.['ambit/context'] as Record<string, unknown>;
      const token = String(plain['token']);
      const { iat = 0 } = decodeJwt(token);
      const keyFile = findKeyFile(join(folder, 'data'), token);
      expect(keyFile === undefined, 'only the key of a process signs over stdio').toBe(server.startsWith('web'));
      const context = await readContext(describeCall(message, server.startsWith('web') ? 'http' : 'stdio'), {
        keys,
        audience: audience(server),
        // As of the moment it was sent: a token lives for a minute, and some are looked at later.
        now: () => iat * 1000,
        replays: createReplayMemory(),
        env: { AMBIT_CONTEXT_KEY_FILE: keyFile },
      });
      expect(context, raw).toMatchObject({ status: 'verified', reason: undefined, ...session.context });
      expect(plain.workspacePath ?? undefined).toBe(pathOf(session.context.workspaceId));
      expect(plain.permissions).toEqual(session.context.permissions);
    },
    async received(server, session) {
      if (!server.startsWith('web')) {
        return JSON.parse(await readToolText(callModern(address(server), session.token, 'recorded', '{}'))) as string[];
      }
      const all = await overHttp();
      return all
        .filter((each) => each.url === new URL(urlOf(server)).pathname && each.body !== '')
        .map(({ body }) => body);
    },
    async close() {
      await gateway.close();
      await web.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

interface Params {
  readonly _meta?: Readonly<Record<string, unknown>>;
  readonly name?: string;
  readonly uri?: string;
  readonly arguments?: unknown;
}

function parseParams(message: Message): Params {
  return (JSON.parse(message.bytes.toString()) as { params?: Params }).params ?? {};
}

/** As somebody else's server would describe the call it got. */
function describeCall(message: Message, transport: 'stdio' | 'http') {
  const { _meta: meta, name, uri, arguments: given } = parseParams(message);
  const about = message.method.startsWith('resources/') ? uri : (name ?? uri);
  return { meta, method: message.method, name: about, arguments: given, transport };
}

/** Finds reserved keys of a message outside of its context; arguments are left out. */
export function findStrayKeys(raw: string): string[] {
  const found: string[] = [];
  const look = (value: unknown, path: string): void => {
    if (typeof value !== 'object' || value === null || path === '.params.arguments' || path.endsWith('.content'))
      return;
    for (const [key, inner] of Object.entries(value)) {
      const place = `${path}.${key}`;
      if (isReservedKey(key) && place !== '.params._meta.ambit/context') found.push(place);
      else look(inner, place);
    }
  };
  look(JSON.parse(raw), '');
  return found;
}
