import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { findProgramOnPath } from '../../../src/sandbox/common/find-program.ts';
import { proof } from '../../proof.ts';
import { pagePath } from '../cells/compatibility-page.ts';
import { ambitBin } from '../start-ambit.ts';
import { readRegistryPart, writeRegistryPart } from './registry-page.ts';
import { type RegistryServer, registryServers } from './registry-servers.ts';

/** The answers of a server: its tools, and the result of one call or its error. */
interface Answers {
  readonly tools: unknown;
  readonly result: unknown;
}

const trustLevels = ['direct', 'sandboxed'] as const;
const timeout = { timeout: 600_000 };
const hasUv = findProgramOnPath('uvx', process.env['PATH']) !== undefined;

// Servers of other authors, started by their users' own commands. PyPI and uv are not everywhere.
describe.runIf(proof)('servers from npm and PyPI', () => {
  let folder: string;
  const tried: RegistryServer[] = [];

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'ambit-registry-'));
    const workspace = join(folder, 'garden');
    mkdirSync(workspace);
    mkdirSync(join(folder, 'home'));
    writeFileSync(join(workspace, 'beans.js'), 'var unused = 1\n');
    writeFileSync(join(workspace, 'eslint.config.js'), "export default [{ rules: { 'no-unused-vars': 'error' } }];\n");
    writeFileSync(join(workspace, 'kubeconfig'), kubeconfig);
    execFileSync('git', ['init', '--quiet', '--initial-branch=main'], { cwd: workspace });
    mkdirSync(join(folder, 'etc'));
    writeFileSync(
      join(folder, 'etc', 'ambit.yaml'),
      JSON.stringify({ version: 1, workspaces: { garden: { path: workspace } } }),
    );
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  async function ask(command: readonly string[], { call }: RegistryServer): Promise<Answers> {
    const workspace = join(folder, 'garden');
    const [program = '', ...args] = command.map((arg) => arg.replaceAll('WORKSPACE', workspace));
    const start = { command: program, args, env: userEnvironment(), cwd: workspace, stderr: 'pipe' } as const;
    const transport = new StdioClientTransport(start);
    let said = '';
    transport.stderr?.on('data', (bytes: Buffer) => {
      said = (said + bytes.toString()).slice(-2000);
    });
    const client = new Client({ name: 'newcomer', version: '1' });
    await client.connect(transport, timeout).catch((error: unknown) => {
      throw new Error(`${command.join(' ')}: ${error}\n${said}`);
    });
    try {
      const { tools } = await client.listTools({}, timeout);
      const asked = JSON.parse(JSON.stringify(call).replaceAll('WORKSPACE', workspace)) as typeof call;
      const result = await client.callTool(asked, undefined, timeout).catch((error: unknown) => String(error));
      return { tools, result };
    } finally {
      await client.close();
    }
  }

  /** The environment of a new user: an empty home folder, and the registries of this machine. */
  function userEnvironment(): Record<string, string> {
    const kept =
      /^(?:PATH|SSL_CERT_FILE|NODE_EXTRA_CA_CERTS|UV_DEFAULT_INDEX|npm_config_(?:registry|cafile)|.*_proxy)$/i;
    const given = Object.entries(process.env).filter(
      (each): each is [string, string] => kept.test(each[0]) && each[1] !== undefined,
    );
    return { ...Object.fromEntries(given), HOME: join(folder, 'home') };
  }

  const servers = registryServers.filter(({ tool }) => tool === 'npx' || hasUv);
  test.each(servers)('$tool $spec answers through Ambit as it does without', async (server) => {
    const command = [server.tool, ...(server.tool === 'npx' ? ['-y'] : []), server.spec, ...(server.args ?? [])];
    const alone = await ask(command, server);
    for (const trust of trustLevels) {
      const flags = ['--config', join(folder, 'etc', 'ambit.yaml'), '--workspace', 'garden', '--trust', trust];
      const through = await ask([process.execPath, ambitBin, 'run', ...flags, '--', ...command], server);
      expect({ trust, ...through }).toEqual({ trust, ...alone });
    }
    tried.push(server);
  });

  test('the page names them', () => {
    const page = readFileSync(pagePath, 'utf8');
    const written = writeRegistryPart(registryServers);
    if (process.env['AMBIT_WRITE_DOCS'] === '1')
      writeFileSync(
        pagePath,
        page.replace(readRegistryPart(page), () => written),
      );
    expect(tried).toEqual(servers);
    expect(readRegistryPart(readFileSync(pagePath, 'utf8'))).toBe(written);
  });
});

const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{ name: garden, cluster: { server: "https://127.0.0.1:1" } }]
users: [{ name: ada, user: {} }]
contexts: [{ name: garden, context: { cluster: garden, user: ada } }]
current-context: garden
`;
