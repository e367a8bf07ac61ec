import { join } from 'node:path';
import { Client } from '@modelcontextprotocol/client';
import { InMemoryTransport, McpServer } from '@modelcontextprotocol/server';
import { type ConfigInput, createGateway } from '../../../src/index.ts';
import { currentSession } from '../../../src/public/sdk/index.ts';
import { cacheResult, createServerSessions, type OwnOptions, withSessions } from '../../../src/public/server/index.ts';
import { openSqliteStore } from '../../../src/stores/index.ts';
import { openClockedStore } from '../../public/server/open-clocked-store.ts';
import { createLogLines, type LogLines } from './log-lines.ts';
import { type Catalog, callTool, type SubjectName } from './start-catalog.ts';

/** The settings that library and gateway have in common. */
export interface Settings {
  readonly sessions?: { readonly ttlSeconds?: number; readonly maxSessions?: number };
  readonly quotas?: OwnOptions['quotas'] & ConfigInput['quotas'];
  /** Whether the test moves the time. */
  readonly timed?: boolean;
  /** Variables of the process; the gateway reads none. */
  readonly env?: Record<string, string>;
}

interface Draft {
  readonly userId?: string;
  readonly permissions?: string[];
  readonly metadata?: Record<string, string>;
}

/** Sessions within the test's own process. */
export interface OpenSessions {
  readonly log: LogLines;
  open(draft: Draft): Promise<{ readonly id: string; readonly userId: string }>;
  list(): Promise<readonly { readonly id: string; readonly userId: string }[]>;
  restrict(id: string, change: { permissions: string[] }): Promise<unknown>;
  end(id: string): Promise<unknown>;
  connect(): Promise<{ call: Catalog['call']; client: Client }>;
  /** Lets two hours pass, and returns how many sessions were removed. */
  expire(): Promise<number>;
  /** How many sessions have ended, with how many calls. */
  countEnded(): Promise<{ readonly sessions: number; readonly calls: number }>;
  close(): Promise<void>;
}

async function connectClient(transport: unknown) {
  const client = new Client({ name: 'agent', version: '1' });
  await client.connect(transport as never);
  return { client, call: (...call: Parameters<Catalog['call']>) => callTool(client, ...call) };
}

let lookups = 0;
const say = (value: unknown) => ({ content: [{ type: 'text' as const, text: JSON.stringify(value) }] });

function buildServer(sessions: ReturnType<typeof createServerSessions>): McpServer {
  const server = withSessions(new McpServer({ name: 'probe', version: '1' }), sessions);
  server.registerTool('search_items', {}, async () =>
    say(await cacheResult(() => ({ lookup: ++lookups }), { ttlSeconds: 9 })),
  );
  server.registerTool('tamper', {}, async () => {
    const session = currentSession();
    const attempts = [
      () => (session.permissions as string[]).push('all'),
      () => Object.assign(session, { userId: 'root' }),
    ];
    const failed = attempts.filter((attempt) => {
      try {
        attempt();
        return false;
      } catch {
        return true;
      }
    });
    return say({ failed: failed.length, ...currentSession() });
  });
  return server;
}

function openInLibrary({ sessions: limits, quotas, timed, env = {} }: Settings): OpenSessions {
  const log = createLogLines();
  const write = (event: string, fields?: object) => log.add(JSON.stringify({ event, ...fields }));
  const ended: number[] = [];
  const clocked = timed ? openClockedStore() : undefined;
  const sessions = createServerSessions({
    ...limits,
    ...(quotas && { quotas }),
    ...(clocked && { store: clocked.store }),
    envPrefix: 'STAC_MCP',
    context: { env, ...(clocked && { now: clocked.now }) },
    tools: true,
    log: { info: write, warn: write, debug: write },
    metrics: { sessionEnded: (_reason, _seconds, calls) => void ended.push(calls) },
  });
  return {
    log,
    open: sessions.open,
    list: sessions.list,
    restrict: sessions.restrict,
    end: sessions.end,
    async connect() {
      const [near, far] = InMemoryTransport.createLinkedPair();
      await buildServer(sessions).connect(near);
      return connectClient(far);
    },
    async expire() {
      clocked?.pass(7200);
      return (await clocked?.store.sweep()) ?? 0;
    },
    countEnded: async () => ({ sessions: ended.length, calls: ended.reduce((sum, calls) => sum + calls, 0) }),
    async close() {
      await sessions.close();
      await clocked?.store.close();
    },
  };
}

async function openInGateway({ timed, sessions, quotas }: Settings, dataDir: string): Promise<OpenSessions> {
  const log = createLogLines();
  const write = (event: string, fields?: object) => log.add(JSON.stringify({ event, ...fields }));
  const gateway = await createGateway({
    config: { version: 1, store: { kind: timed ? 'sqlite' : 'memory' }, sessions, quotas } as ConfigInput,
    dataDir,
    log: { info: write, warn: write, debug: write },
  });
  return {
    log,
    open: gateway.createSession,
    list: gateway.listSessions,
    restrict: gateway.restrictSession,
    end: gateway.endSession,
    connect: async () => connectClient(gateway.connect((await gateway.createSession()).id)),
    async expire() {
      // Another process on the same machine, whose clock is ahead.
      const ahead = await openSqliteStore({ file: join(dataDir, 'sessions.db'), now: () => Date.now() + 7_200_000 });
      const swept = await ahead.sweep();
      await log.find({ event: 'session ended', reason: 'expired' });
      await ahead.close();
      return swept;
    },
    async countEnded() {
      const { url } = await gateway.listen({ port: 0 });
      const text = await (await fetch(`${url}/metrics`)).text();
      const read = (name: string) => Number(new RegExp(`^ambit_session_calls_${name} (\\d+)$`, 'm').exec(text)?.[1]);
      return { sessions: read('count'), calls: read('sum') };
    },
    close: gateway.close,
  };
}

export async function openSessions(name: SubjectName, settings: Settings, dataDir: string): Promise<OpenSessions> {
  return name === 'library' ? openInLibrary(settings) : openInGateway(settings, dataDir);
}
