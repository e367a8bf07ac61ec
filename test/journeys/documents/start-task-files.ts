import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { createGateway } from '../../../src/index.ts';
import { repository } from '../../structure/source-files.ts';

export type Args = Record<string, unknown>;

export interface Agent {
  readonly client: Client;
  /** `code` is undefined if the call succeeded. */
  call(name: string, args?: Args): Promise<{ text: string; code: string | undefined; details: Args }>;
}

export interface Subject {
  readonly agent: Agent;
  /** The agent of another person. The files of this person's tasks are in a database. */
  readonly bob: Agent;
  /** Opens the session `task#<number>` and returns its id. */
  open(task: string, person?: 'bob'): Promise<string>;
  /** Connects another agent of the first person. */
  join(): Promise<Agent>;
  /** A tool that the server has besides the file tools. */
  readonly ownTool: string;
  /** What was recorded about paths. */
  trace(): Args[];
  close(): Promise<void>;
}

async function connect(transport: unknown): Promise<Agent> {
  const client = new Client({ name: 'agent', version: '1' });
  await client.connect(transport as Parameters<typeof client.connect>[0]);
  return {
    client,
    async call(name, args = {}) {
      const result = await client.callTool({ name, arguments: args });
      const text = (result.content as { text?: string }[]).map((block) => block.text).join('\n');
      const code = result.isError ? (/^[A-Z_]+(?=: )/.exec(text)?.[0] ?? text) : undefined;
      return { text, code, details: (result.structuredContent ?? {}) as Args };
    },
  };
}

/** The lines that are complete. */
const readLines = (text: string) =>
  text
    .slice(0, text.lastIndexOf('\n') + 1)
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Args);

/** A process for each agent. They share their sessions in a store, and none of them works in the folder of a task. */
export async function startLibrary(folder: string): Promise<Subject> {
  const agents: Agent[] = [];
  const logs: string[] = [];
  async function start(env: Record<string, string> = {}): Promise<Agent> {
    const transport = new StdioClientTransport({
      command: process.execPath,
      args: [join(repository, 'examples/task-files/server.js')],
      cwd: join(folder, 'main'),
      env: {
        PATH: process.env.PATH ?? '',
        TASKS_DIR: join(folder, 'tasks'),
        AMBIT_SESSION_STORE_DIR: join(folder, 'store'),
        ...env,
      },
      stderr: 'pipe',
    });
    const own = logs.push('') - 1;
    transport.stderr?.on('data', (chunk: Buffer) => {
      logs[own] += chunk.toString('latin1');
    });
    agents.push(await connect(transport));
    return agents.at(-1) as Agent;
  }
  const [agent, bob] = await Promise.all([start(), start({ AMBIT_USER_ID: 'bob', TASKS_BACKEND: 'database' })]);
  return {
    agent,
    bob,
    async open(task, person) {
      const caller = person === 'bob' ? bob : agent;
      const { code } = await caller.call('start_task', { task });
      if (code !== undefined) throw new Error(code);
      const { details } = await caller.call('session_info', { session: `task#${task}` });
      return (details['session'] as { id: string }).id;
    },
    join: () => start(),
    ownTool: 'start_task',
    trace: () => logs.flatMap(readLines),
    close: async () => void (await Promise.all(agents.map(({ client }) => client.close()))),
  };
}

const tasks = ['10', '20', '21', '30', '31', '32', '33', '40', '41', '50', '60', '70', '71', '72', '80', '81'];
const inDatabase = ['22', '42'];

/** A workspace for each task. The orchestrator opens the sessions; those of the agents themselves have no workspace. */
export async function startGateway(folder: string): Promise<Subject> {
  const paths = tasks.map((task) => [`task-${task}`, { path: join(folder, `tasks/task-${task}`), create: true }]);
  const databases = inDatabase.map((task) => [`task-${task}`, { backend: 'database' }]);
  const gateway = await createGateway({
    config: {
      version: 1,
      store: { kind: 'memory' },
      sessions: { defaultTrust: 'direct' },
      workspaces: Object.fromEntries([...paths, ...databases]),
      servers: { notes: { command: process.execPath, args: [join(repository, 'examples/notes/notes.mjs')] } },
    },
    dataDir: join(folder, 'data'),
    log: { info() {}, warn() {} },
  });
  const agents: Agent[] = [];
  async function start(userId = 'local'): Promise<Agent> {
    agents.push(await connect(gateway.connect((await gateway.createSession({ userId })).id)));
    return agents.at(-1) as Agent;
  }
  return {
    agent: await start(),
    bob: await start('bob'),
    async open(task, person) {
      const userId = person ?? 'local';
      return (await gateway.createSession({ name: `task#${task}`, workspaceId: `task-${task}`, userId })).id;
    },
    join: () => start(),
    ownTool: 'notes__list_notes',
    trace: () => readLines(readFileSync(join(folder, 'data/journal/journal.jsonl'), 'latin1')),
    async close() {
      for (const { client } of agents) await client.close();
      await gateway.close();
    },
  };
}

/** Every file in a folder with its content, except in some folders. */
export function readFiles(folder: string, except: readonly string[]): string[] {
  const read = (path: string): string[] =>
    readdirSync(path, { withFileTypes: true }).flatMap((entry) => {
      const inner = join(path, entry.name);
      if (except.includes(inner)) return [];
      return entry.isDirectory() ? read(inner) : [`${inner}: ${entry.isFile() ? readFileSync(inner, 'utf8') : ''}`];
    });
  return read(folder).sort();
}
