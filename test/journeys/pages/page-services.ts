import { basename } from 'node:path';
import { startRegistry } from '../../cli/registry/registry-server.ts';
import { hasBwrap } from '../../needs/bwrap.ts';
import { hasJq } from '../../needs/jq.ts';
import { findProgram } from '../../needs/program.ts';
import { findRedis, startRedis } from '../../stores/redis-server.ts';
import { authorizationServer, browse } from '../../upstreams/auth/authorization-server.ts';
import { guardedUpstream } from '../../upstreams/auth/guarded-upstream.ts';
import { readPage } from './read-page.ts';

/** Programs that a page takes for granted: real ones, under other names than on the page. */
export interface PageServices {
  readonly names: Map<string, string>;
  /** Variables that lead commands to them. */
  readonly env?: NodeJS.ProcessEnv;
  /** A person who reads what a command has printed, and does what it says. */
  readPrinted(printed: string): Promise<void>;
  close(): Promise<void>;
}

const starters: Readonly<Record<string, () => Promise<PageServices>>> = {
  async 'docs/how-to/several-processes.md'() {
    const redis = await startRedis(findRedis() as string);
    return {
      names: new Map([['redis://127.0.0.1:6379', redis.url]]),
      readPrinted: async () => {},
      close: async () => redis.remove(),
    };
  },
  async 'docs/how-to/accept-existing-keys.md'() {
    // Any free port, because pages run beside each other.
    return { names: new Map(), env: { PORT: '0' }, readPrinted: async () => {}, close: async () => {} };
  },
  async 'docs/how-to/log-in-to-servers.md'() {
    const provider = await authorizationServer();
    const tracker = await guardedUpstream(provider.issuer, provider.jwksUri);
    return {
      names: new Map([['https://mcp.tracker.example/mcp', tracker.url]]),
      async readPrinted(printed) {
        const address = /^http:\S+$/m.exec(printed)?.[0] ?? '';
        const back = await browse(address, (url) => url.includes('/callback'));
        await fetch(back);
      },
      async close() {
        await tracker.close();
        await provider.close();
      },
    };
  },
  async 'docs/how-to/add-servers.md'() {
    const registry = await startRegistry([weatherEntry]);
    return {
      names: new Map(),
      env: { AMBIT_REGISTRY: registry.url },
      readPrinted: async () => {},
      close: registry.close,
    };
  },
};

/** The entry of the registry that a page finds. */
const weatherEntry = {
  server: {
    name: 'io.github.ada/weather',
    description: 'Weather data and forecasts',
    version: '1.2.3',
    packages: [
      {
        registryType: 'npm',
        identifier: '@ada/weather-mcp',
        version: '1.2.3',
        transport: { type: 'stdio' },
        environmentVariables: [
          { name: 'WEATHER_KEY', description: 'Key of the weather service', isRequired: true, isSecret: true },
        ],
      },
    ],
    remotes: [{ type: 'streamable-http', url: 'https://weather.example.com/mcp' }],
  },
};

/** Pages whose sessions are sandboxed. */
const sandboxedPages = [
  'a-folder-per-session',
  'developer',
  'open-sessions-for-agents',
  'platform-builder',
  'run-agents-from-an-orchestrator',
  'wrap-one-server',
];

/** Whether this machine has the programs that a page needs and that npm does not bring. */
export function canRunPage(path: string): boolean {
  const name = basename(path, '.md');
  if (name === 'several-processes' && findRedis() === undefined) return false;
  if (sandboxedPages.includes(name) && !hasBwrap()) return false;
  const runs = (program: RegExp) => readPage(path).some(({ kind, text }) => kind === 'run' && program.test(text));
  return (hasJq() || !runs(/\bjq\b/)) && (findProgram('python3') !== undefined || !runs(/\bpython3\b/));
}

export async function startPageServices(path: string): Promise<PageServices> {
  const none = { names: new Map<string, string>(), readPrinted: async () => {}, close: async () => {} };
  return (await starters[path]?.()) ?? none;
}
