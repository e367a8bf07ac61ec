import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { everything, filesystem, fixture, type Script } from '../clients/checks/upstream-scripts.ts';
import type { Era } from '../clients/connect/connect-client.ts';
import { type Evidence, readStdioEvidence, tapArguments } from '../clients/evidence/evidence.ts';
import { startHttpTap } from '../clients/evidence/tap-http.ts';
import { createFolders, startHttpUpstream, type TestFolders } from '../clients/upstreams.ts';
import { repository } from '../start-ambit.ts';
import { startLite } from './servers/start-lite.ts';
import { fast, framework, lite, memory, thinking, tinyModern } from './upstream-scripts.ts';

const packages = join(repository, 'node_modules', '@modelcontextprotocol');
const others = join(import.meta.dirname, 'servers');
const theirs = (name: string) => join(others, 'node_modules', '@modelcontextprotocol', name, 'dist', 'index.js');
const fixtureServer = join(repository, 'test', 'fixtures', 'conformance', 'stdio.js');
const everythingServer = join(packages, 'server-everything', 'dist', 'index.js');

/** One upstream as Ambit is told of it, and how to see what arrives there. */
export interface Upstream {
  readonly name: string;
  readonly era: Era;
  /** The package and, if several transports are tested, the transport. */
  readonly title: string;
  readonly packages: readonly string[];
  script(place: TestFolders): Script;
  start(place: TestFolders): Promise<Started>;
}

export interface Started {
  readonly config: Record<string, unknown>;
  evidence(): Evidence;
  stop(): Promise<void>;
}

function startStdio(args: (place: TestFolders) => string[]): Upstream['start'] {
  return async (place) => ({
    config: {
      command: process.execPath,
      args: [...tapArguments(place.taps), ...args(place)],
    },
    evidence: () => readStdioEvidence(place.taps),
    stop: async () => {},
  });
}

function startHttp(start: () => Promise<{ url: string; stop(): Promise<void> }>): Upstream['start'] {
  return async () => {
    const server = await start();
    const tap = await startHttpTap(server.url);
    return {
      config: { url: tap.url },
      evidence: () => tap.watch(),
      async stop() {
        tap.stop();
        await server.stop();
      },
    };
  };
}

const createFixture = (era: Era, transport: 'stdio' | 'http'): Upstream => ({
  name: `fixture-${era}-${transport}`,
  era,
  title: `\`server\`, ${transport === 'http' ? 'HTTP' : transport}`,
  packages: ['@modelcontextprotocol/server'],
  script: () => fixture,
  start: transport === 'stdio' ? startStdio(() => [fixtureServer]) : startHttp(() => startHttpUpstream('fixture http')),
});
const createTiny = (era: Era): Upstream => ({
  name: `tmcp-${era}`,
  era,
  title: '`tmcp`, stdio',
  packages: ['tmcp'],
  script: () => (era === 'modern' ? tinyModern : framework('tiny')),
  start: startStdio(() => [join(others, 'tiny.js')]),
});

/** Upstreams of one group run together behind one Ambit; no two of them have a resource of the same address. */
export const groups: readonly (readonly Upstream[])[] = [
  [
    {
      name: 'everything-stdio',
      era: 'handshake',
      title: '`server-everything`, stdio',
      packages: ['@modelcontextprotocol/server-everything'],
      script: () => everything,
      start: startStdio(() => [everythingServer, 'stdio']),
    },
    createFixture('modern', 'stdio'),
    {
      name: 'memory',
      era: 'handshake',
      title: '`server-memory`, stdio',
      packages: ['@modelcontextprotocol/server-memory'],
      script: () => memory,
      start: startStdio(() => ['--import', pathToFileURL(join(others, 'own-memory.js')).href, theirs('server-memory')]),
    },
  ],
  [
    {
      name: 'everything-http',
      era: 'handshake',
      title: '`server-everything`, HTTP',
      packages: ['@modelcontextprotocol/server-everything'],
      script: () => everything,
      start: startHttp(() => startHttpUpstream('everything http')),
    },
    createFixture('modern', 'http'),
    createTiny('modern'),
  ],
  [
    createFixture('handshake', 'stdio'),
    {
      name: 'fastmcp',
      era: 'handshake',
      title: '`fastmcp`, stdio',
      packages: ['fastmcp'],
      script: () => fast,
      start: startStdio(() => [join(others, 'fast.js')]),
    },
    createTiny('handshake'),
  ],
  [
    createFixture('handshake', 'http'),
    {
      name: 'lite',
      era: 'handshake',
      title: '`mcp-lite`, HTTP',
      packages: ['mcp-lite'],
      script: () => lite,
      start: startHttp(startLite),
    },
    {
      name: 'filesystem',
      era: 'handshake',
      title: '`server-filesystem`, stdio',
      packages: ['@modelcontextprotocol/server-filesystem'],
      script: (place) => filesystem(place.files),
      start: startStdio((place) => [
        join(packages, 'server-filesystem', 'dist', 'index.js'),
        join(place.folder, 'start'),
      ]),
    },
    {
      name: 'thinking',
      era: 'handshake',
      title: '`server-sequential-thinking`, stdio',
      packages: ['@modelcontextprotocol/server-sequential-thinking'],
      script: () => thinking,
      start: startStdio(() => [theirs('server-sequential-thinking')]),
    },
  ],
];
export const upstreams: readonly Upstream[] = groups.flat();
export { createFolders as createPlace, type TestFolders as Place };
