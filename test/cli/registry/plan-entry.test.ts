import { expect, test } from 'vitest';
import type { RegistryServer } from '../../../src/cli/registry/ask-registry.ts';
import { listOffers } from '../../../src/cli/registry/plan-entry.ts';

const given = { env: {}, headers: {}, args: [] as string[], folder: import.meta.dirname };

function offerOf(member: Record<string, unknown>, more: Partial<typeof given> = {}) {
  const isRemote = 'url' in member;
  const server = { name: 'com.example/x', version: '1.0.0', [isRemote ? 'remotes' : 'packages']: [member] };
  return listOffers(server as unknown as RegistryServer, { ...given, ...more })[0];
}

const npm = (more: object = {}) => ({
  ...{ registryType: 'npm', identifier: '@a/b', version: '1.2.3', transport: { type: 'stdio' } },
  ...more,
});
const oci = (identifier: string, more: object = {}) =>
  npm({ registryType: 'oci', identifier, version: undefined, ...more });
const commandOf = (member: Record<string, unknown>, args: string[] = []) => {
  const entry = offerOf(member, { args })?.plan?.entry as { command: string; args: string[] };
  return [entry.command, ...entry.args].join(' ');
};

test.each([
  [npm(), 'npx -y @a/b@1.2.3'],
  [npm({ runtimeHint: 'npx', runtimeArguments: [{ type: 'positional', value: '-y' }] }), 'npx -y @a/b@1.2.3'],
  [npm({ registryType: 'pypi', identifier: 'mcp-server-time' }), 'uvx mcp-server-time==1.2.3'],
  [oci('docker.io/a/b:1.2'), 'docker run -i --rm docker.io/a/b:1.2'],
  [oci(`ghcr.io/a/b@sha256:${'0'.repeat(64)}`), `docker run -i --rm ghcr.io/a/b@sha256:${'0'.repeat(64)}`],
  [oci('a/b', { version: '2', registryBaseUrl: 'https://ghcr.io' }), 'docker run -i --rm ghcr.io/a/b:2'],
  [
    oci('a/b:1', { environmentVariables: [{ name: 'KEY', isRequired: true, isSecret: true }] }),
    'docker run -i --rm -e KEY a/b:1',
  ],
])('the command of a package (%#)', (member, command) => {
  expect(commandOf(member)).toBe(command);
});

test('fixed arguments are taken over, defaults only where the person gives none', () => {
  const member = npm({
    packageArguments: [
      { type: 'positional', value: 'mcp' },
      { type: 'named', name: '--mode', value: '{mode}', variables: { mode: { default: 'read' } } },
      { type: 'named', name: '--quiet', value: '' },
      { type: 'named', name: '--port', isRequired: true, default: '80' },
      { type: 'named', name: '--theme', default: 'dark' },
    ],
  });
  expect(commandOf(member)).toBe('npx -y @a/b@1.2.3 mcp --mode read --quiet --port 80');
  expect(commandOf(member, ['--port', '81'])).toBe('npx -y @a/b@1.2.3 mcp --mode read --quiet --port 81');
  const needy = npm({
    packageArguments: [{ type: 'positional', valueHint: 'dir', description: 'Path', isRequired: true }],
  });
  expect(offerOf(needy)?.problem).toBe('it needs arguments, which you add after "--": dir (Path)');
  expect(commandOf(needy, ['/srv'])).toBe('npx -y @a/b@1.2.3 /srv');
});

test.each<[Record<string, unknown>, string]>([
  [npm({ identifier: '--registry=https://evil.example' }), 'not the name of a package'],
  [npm({ identifier: '-p' }), 'not the name of a package'],
  [npm({ identifier: 'git+https://evil.example/x' }), 'not the name of a package'],
  [npm({ identifier: '../x' }), 'not the name of a package'],
  [npm({ version: 'latest' }), 'no exact version'],
  [npm({ version: '^1.2.3' }), 'no exact version'],
  [npm({ version: undefined }), 'no exact version'],
  [npm({ version: '1.2.3 --registry=x' }), 'no exact version'],
  // npm reads these as a file in the working directory, which an agent may have written.
  [npm({ identifier: 'x', version: '1.0.0-a.tgz' }), 'no exact version'],
  [npm({ identifier: 'x', version: '1.0.0-a.TAR.gz' }), 'no exact version'],
  // The gateway does not install these itself: npx and uvx would run in the workspace.
  [npm({ identifier: 'Xx' }), 'can be installed'],
  [npm({ identifier: '~x' }), 'can be installed'],
  [npm({ registryType: 'pypi', identifier: 'x', version: '1_0' }), 'no exact version'],
  [npm({ registryType: 'pypi', identifier: 'x', version: '1.0.tar.gz' }), 'no exact version'],
  [npm({ registryType: 'pypi', identifier: 'x'.repeat(200) }), 'can be installed'],
  [oci('localhost:5000/x:1'), 'private network'],
  [oci('10.1.2.3/x:1'), 'private network'],
  [oci(`a/b@sha256:${'0'.repeat(64)}`, { version: '--privileged' }), 'no exact version'],
  [{ type: 'streamable-http', url: 'https://localhost../x' }, 'private network'],
  [npm({ registryBaseUrl: 'https://npm.evil.example' }), 'not the usual one'],
  [npm({ registryBaseUrl: 'https://registry.npmjs.org.evil.example' }), 'not the usual one'],
  [npm({ registryType: 'constructor' }), 'are not supported'],
  [npm({ registryType: 'mcpb', identifier: 'https://github.com/x.mcpb' }), 'are not supported'],
  [npm({ transport: { type: 'sse' } }), 'only packages that speak stdio'],
  [
    npm({ runtimeArguments: [{ type: 'named', name: '--node-options', value: '--import=/x' }] }),
    'can decide what runs',
  ],
  [npm({ runtimeArguments: [{ type: 'named', name: '-c', value: 'sh' }] }), 'can decide what runs'],
  [npm({ environmentVariables: [{ name: 'NODE_OPTIONS', value: '--import=/x' }] }), 'it sets NODE_OPTIONS'],
  [npm({ environmentVariables: [{ name: 'AMBIT_TRUST_LEVEL', value: 'direct' }] }), 'it sets AMBIT_TRUST_LEVEL'],
  [npm({ environmentVariables: [{ name: 'LD_PRELOAD' }] }), 'it sets LD_PRELOAD'],
  [npm({ packageArguments: [{ type: 'positional', value: '/etc/passwd' }] }), 'name a file or folder of this machine'],
  [npm({ packageArguments: [{ type: 'named', name: '--x', value: '/etc' }] }), 'name a file or folder of this machine'],
  [npm({ packageArguments: [{ type: 'positional', value: '--x=/etc/passwd' }] }), 'name a file or folder'],
  [npm({ packageArguments: [{ type: 'positional', value: 'plan-entry.test.ts' }] }), 'name a file or folder'],
  [oci('-v'), 'not the name of an image'],
  [oci('a/b:latest'), 'no exact version'],
  [oci('a/b'), 'no exact version'],
  [oci('a/b:1', { runtimeArguments: [{ type: 'named', name: '-v', value: '/:/host' }] }), 'can decide what runs'],
  [oci('a/b:1', { runtimeArguments: [{ type: 'named', name: '--privileged' }] }), 'can decide what runs'],
  [oci('a/b:1', { runtimeArguments: [{ type: 'named', name: '-e', value: 'LD_PRELOAD=x' }] }), 'it sets LD_PRELOAD'],
  [oci('a/b:1', { runtimeArguments: [{ type: 'named', name: '-e', value: '-v=/:/x' }] }), 'can decide what runs'],
  [{ type: 'websocket', url: 'https://h.example/sse' }, 'are not supported'],
  [{ type: 'streamable-http', url: 'http://h.example/mcp' }, 'does not start with https://'],
  [{ type: 'streamable-http', url: 'https://127.0.0.1/mcp' }, 'on a private network'],
  [{ type: 'streamable-http', url: 'https://[::ffff:10.0.0.1]/mcp' }, 'on a private network'],
  [{ type: 'streamable-http', url: 'https://0x7f.1/mcp' }, 'on a private network'],
  [{ type: 'streamable-http', url: 'https://localhost./mcp' }, 'on a private network'],
  [{ type: 'streamable-http', url: 'https://metadata.google.internal/mcp' }, 'on a private network'],
  [{ type: 'streamable-http', url: 'https://u:p@h.example/mcp' }, 'a user name or a password'],
  [{ type: 'streamable-http', url: 'https://{tenant}.example/mcp' }, 'a part that you fill in'],
])('S1: what an entry may not bring along (%#)', (member, problem) => {
  expect(offerOf(member)).toMatchObject({ problem: expect.stringContaining(problem) });
});

test('values of the person go before those of the entry, and secrets have no default', () => {
  const member = npm({
    environmentVariables: [
      { name: 'TOKEN', isRequired: true, isSecret: true, default: 'published' },
      { name: 'REGION', value: 'eu' },
    ],
  });
  expect(offerOf(member)?.plan).toMatchObject({ entry: { env: { REGION: 'eu' } }, missing: [{ name: 'TOKEN' }] });
  const mine = offerOf(member, { env: { TOKEN: 'mine', REGION: 'us' } })?.plan;
  expect(mine).toMatchObject({ entry: { env: { TOKEN: 'mine', REGION: 'us' } }, missing: [] });
});

test('a placeholder that is required makes its variable or header required', () => {
  const token = { token: { description: 'Token of the service', isRequired: true, isSecret: true } };
  const header = { name: 'Authorization', value: 'Bearer {token}', variables: token };
  const missing = (name: string) => [{ name, description: 'Token of the service', isSecret: true }];
  const remote = { type: 'streamable-http', url: 'https://h.example/mcp', headers: [header] };
  expect(offerOf(remote)?.plan).toMatchObject({ entry: { url: remote.url }, missing: missing('Authorization') });
  expect(offerOf({ ...remote, type: 'sse' })?.plan).toMatchObject({ entry: { type: 'sse', url: remote.url } });
  const variable = { name: 'TOKEN', value: '{token}', variables: token };
  expect(offerOf(npm({ environmentVariables: [variable] }))?.plan?.missing).toEqual(missing('TOKEN'));
  const argument = { type: 'named', name: '--token', value: '{token}', variables: token };
  expect(offerOf(npm({ packageArguments: [argument] }))?.problem).toContain('--token (Token of the service)');
});

test('an image whose variables are arguments of Docker', () => {
  const token = { token: { isRequired: true, isSecret: true } };
  const member = oci('ghcr.io/a/b:1.2', {
    runtimeArguments: [
      { type: 'positional', value: 'run' },
      { type: 'named', name: '-i', value: 'true' },
      { type: 'named', name: '--rm', value: 'true' },
      { type: 'named', name: '-e', value: 'TOKEN={token}', isRequired: true, variables: token },
      { type: 'named', name: '-e', value: 'REGION=eu' },
      { type: 'positional', valueHint: 'image_name', value: 'ghcr.io/a/b' },
    ],
  });
  expect(commandOf(member)).toBe('docker run -i --rm -e REGION -e TOKEN ghcr.io/a/b:1.2');
  expect(offerOf(member)?.plan).toMatchObject({
    entry: { env: { REGION: 'eu' }, trust: 'direct' },
    missing: [{ name: 'TOKEN', isSecret: true }],
  });
});
