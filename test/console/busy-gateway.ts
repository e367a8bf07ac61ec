import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { callModern } from '../journeys/json-mcp-client.ts';
import { type CreatedSession, type RunningAmbit, repository, startAmbit } from '../journeys/start-ambit.ts';
import { control } from './open-console.ts';

/** A gateway in which every view of the console has something to show. */
export interface BusyGateway extends RunningAmbit {
  /** The folder of the workspaces and of the included file. */
  readonly files: string;
  readonly sessions: Readonly<Record<'lead' | 'child' | 'sandboxed' | 'ended', CreatedSession>>;
  /** Calls a tool of `/mcp`, and returns the texts of its result. */
  call(session: CreatedSession, tool: string, args?: Record<string, unknown>): Promise<string>;
}

const everything = join(repository, 'node_modules/@modelcontextprotocol/server-everything/dist/index.js');

function writeConfig(files: string) {
  return {
    include: [join(files, 'shop/.mcp.json')],
    sessions: { allowDirect: 'always' },
    servers: {
      notes: {
        command: process.execPath,
        args: [join(repository, 'examples/demo/notes-server.js')],
        tools: { permissions: { write_note: 'notes:write' } },
      },
      everything: { command: process.execPath, args: [everything], tools: { deny: ['get-env'] } },
      broken: {
        command: process.execPath,
        args: ['-e', 'console.error("The database cannot be opened."); process.exit(3)'],
      },
    },
    rules: [
      {
        id: 'no-secrets',
        deny: 'everything__echo',
        when: "session.userId == 'ada' && args.message.contains('password')",
      },
    ],
    workspaces: {
      garden: { path: join(files, 'garden'), isolation: 'copy', onEnd: 'keep' },
      shop: { path: join(files, 'shop'), trust: 'sandboxed', capabilities: { servers: ['notes'] } },
    },
    governance: {
      teams: ['web'],
      users: [{ name: 'ada', teams: ['web'] }],
      policies: [{ name: 'require-tests', scope: 'team:web', text: 'All code changes must include tests.' }],
      objectives: [{ text: 'Reduce deployment time to under 5 minutes' }],
    },
  };
}

export async function startBusyGateway(): Promise<BusyGateway> {
  const files = await mkdtemp(join(tmpdir(), 'ambit-console-'));
  for (const name of ['garden', 'shop']) await mkdir(join(files, name));
  await writeFile(join(files, 'garden/plan.md'), '# Plan\n\nWater the beans.\n');
  const included = { mcpServers: { shelf: { command: process.execPath, args: ['shelf.mjs'] } } };
  await writeFile(join(files, 'shop/.mcp.json'), JSON.stringify(included));
  await writeFile(join(files, 'shop/shelf.mjs'), 'process.stdin.resume();\n');
  const ambit = await startAmbit(writeConfig(files));
  const ask = <T>(method: string, path: string, body?: unknown) => control<T>(ambit, method, path, body);
  const call: BusyGateway['call'] = async ({ token }, tool, args = {}) => {
    const { messages, text } = await callModern(`${ambit.url}/mcp`, token, tool, args);
    return (
      messages
        .at(-1)
        ?.result?.content?.map((block) => block.text)
        .join('\n') ?? text
    );
  };
  await ask('POST', '/api/v1/keys', { userId: 'ada', trustLevel: 'sandboxed' });
  const lead = await ambit.session({
    name: 'lead',
    userId: 'ada',
    agentId: 'planner',
    workspaceId: 'garden',
    task: 'Plan the beds for spring',
    permissions: ['notes:read'],
    quotas: { totalCalls: 50 },
  });
  const child = await ambit.session({ name: 'beds', userId: 'ada', workspaceId: 'garden', parentId: lead.id });
  const sandboxed = await ambit.session({
    name: 'clerk',
    userId: 'grace',
    workspaceId: 'shop',
    trustLevel: 'sandboxed',
  });
  const ended = await ambit.session({ name: 'yesterday', userId: 'ada', workspaceId: 'garden' });
  await call(ended, 'session_edit_file', { path: 'old.md', content: 'An old plan.\n' });
  await ask('DELETE', `/api/v1/sessions/${ended.id}`);
  await call(lead, 'session_edit_file', { path: 'plan.md', content: '# Plan\n\nWater the roses.\n' });
  await call(lead, 'session_state_set', { key: 'step', value: 2 });
  await call(lead, 'everything__echo', { message: 'hello' });
  await call(lead, 'everything__echo', { message: 'my password' });
  await call(lead, 'notes__write_note', { name: 'x', text: 'y' });
  await call(lead, 'broken__anything');
  await call(lead, 'session_send_message', { to: child.id, text: 'Please draw the beds.' });
  return {
    ...ambit,
    files,
    sessions: { lead, child, sandboxed, ended },
    call,
    async stop(signal) {
      const code = await ambit.stop(signal);
      await rm(files, { recursive: true, force: true });
      return code;
    },
  };
}
