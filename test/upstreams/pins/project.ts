import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { loadConfig } from '../../../src/config/load/load.ts';
import { defineServers, type ServerDefinition } from '../../../src/upstreams/definition.ts';
import { type Approvals, createApprovals } from '../../../src/upstreams/pins/approvals.ts';

/** A project folder with an `.mcp.json`, and an operator's place outside of it that includes it. */
export interface Project {
  readonly folder: string;
  readonly dataDir: string;
  readonly configFile: string;
  readonly approvals: Approvals;
  write(path: string, text: string, mode?: number): string;
  /** What the gateway would make of the `.mcp.json` with these servers. */
  declare(servers: Record<string, unknown>): Promise<ReadonlyMap<string, ServerDefinition>>;
  server(description: Record<string, unknown>): Promise<ServerDefinition>;
  remove(): void;
}

export function createProject(options: { readonly searchPath?: string } = {}): Project {
  const root = mkdtempSync(join(tmpdir(), 'ambit-project-'));
  const folder = join(root, 'project');
  const dataDir = join(root, 'data');
  const configFile = join(root, 'etc', 'ambit.yaml');
  for (const path of [folder, dirname(configFile)]) mkdirSync(path);
  mkdirSync(dataDir, { mode: 0o700 });
  writeFileSync(configFile, 'version: 1\ninclude: [../project/.mcp.json]\n');
  const approvals = createApprovals({ dataDir, ...options });

  function write(path: string, text: string, mode = 0o644): string {
    const file = join(folder, path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
    chmodSync(file, mode);
    return file;
  }

  async function declare(servers: Record<string, unknown>) {
    write('.mcp.json', JSON.stringify({ mcpServers: servers }));
    const { config } = await loadConfig({ file: configFile });
    return defineServers(config, dirname(configFile));
  }

  return {
    folder,
    dataDir,
    configFile,
    approvals,
    write,
    declare,
    async server(description) {
      const server = (await declare({ x: description })).get('x');
      if (server === undefined) throw new Error('the server was refused');
      return server;
    },
    remove() {
      approvals.close();
      rmSync(root, { recursive: true, force: true });
    },
  };
}
