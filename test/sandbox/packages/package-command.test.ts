import { describe, expect, test } from 'vitest';
import { isAmbitError } from '../../../src/errors.ts';
import { readPackageCommand } from '../../../src/sandbox/packages/package-command.ts';

const read = (line: string) => {
  const [command = '', ...args] = line.split(' ');
  return readPackageCommand(command, args);
};

describe('a command that names a package', () => {
  test.each([
    ['npx some-server', 'some-server', '', undefined, []],
    ['npx -y @scope/some-server@1.2.3 --root /', '@scope/some-server', '1.2.3', undefined, ['--root', '/']],
    ['/usr/bin/npx --yes some-server@^2 -y', 'some-server', '^2', undefined, ['-y']],
    ['npx -y -p some-pkg@beta some-bin -x', 'some-pkg', 'beta', 'some-bin', ['-x']],
    ['npx --package=@s/p -- bin -p y', '@s/p', '', 'bin', ['-p', 'y']],
    ['npx -- some-server --', 'some-server', '', undefined, ['--']],
    ['bunx some-server@latest a', 'some-server', 'latest', undefined, ['a']],
    ['bunx --package p bin', 'p', '', 'bin', []],
    ['uvx mcp-server-time --local-timezone UTC', 'mcp-server-time', '', 'mcp-server-time', ['--local-timezone', 'UTC']],
    ['uvx Some_Server@1.0', 'Some_Server', '1.0', 'Some_Server', []],
    ['uvx some[cli]@latest', 'some[cli]', '', 'some', []],
    ['uvx -q --from some-pkg==2.0 --python 3.12 tool x', 'some-pkg', '2.0', 'tool', ['x']],
  ])('%s', (line, name, wanted, program, args) => {
    expect(read(line)).toMatchObject({ name, wanted, program, args });
  });

  test('the runtime is read too', () => {
    expect(read('bunx --bun some-server')).toMatchObject({ runtime: 'bun' });
    expect(read('uvx --python=3.12 x')).toMatchObject({ runtime: '3.12' });
  });

  test.each(['node server.js', '/srv/bin/server', 'npm start', 'uv run x', 'toString x', 'python -m x'])(
    '%s is an ordinary program',
    (line) => expect(read(line)).toBeUndefined(),
  );
});

describe('a command that cannot be pinned is refused with the correct spelling', () => {
  const registry = /not the name of a package in a registry.*/;
  test.each<[string, RegExp]>([
    ...[
      ...['github:a/b', 'a/b', 'git+https://host/a.git', 'git@host:a/b.git', 'https://host/a.tgz', 'http://h/x'],
      ...[
        './local',
        '../up',
        '/abs/path',
        '~/x',
        'file:x',
        'x.tgz/',
        '.',
        '..',
        'a@npm:b@1',
        'a@file:../b',
        'a@http://x',
      ],
      ...[
        'a@git+ssh://h/x',
        'Upper',
        '@scope',
        '@/x',
        'a@',
        'a@>=1',
        'a@1||2',
        'a@$(x)',
        'a;b',
        'a\nb',
        '_a',
        '.a',
        '@a/-b',
      ],
      ...['node_modules/../x', '@a/b/c', 'a'.repeat(215), 'a@1@2', 'workspace:*', 'a@-x', ''],
    ].map((spec): [string, RegExp] => [`npx -y ${spec}`, registry]),
    ...[
      'git+https://h/a.git',
      './x',
      'a@git+https://h/x',
      'a>=1',
      'https://h/a.whl',
      'a==1,b',
      'a[x',
      'a@file:///x',
      'a;x',
    ].map((spec): [string, RegExp] => [`uvx ${spec}`, registry]),
    ...[
      '-c',
      '--call=x',
      '--registry=http://evil',
      '--userconfig=x',
      '--node-options=x',
      '--ignore-scripts=false',
      '-w',
    ].map((flag): [string, RegExp] => [`npx ${flag} some-server`, /the flag "-.*cannot be used here/]),
    ['npx -p a -p b bin', /the flag "-p"/],
    ['npx -p a', /the package after .* is missing|not the name of a program/],
    ['npx -p a ../bin', /not the name of a program/],
    ['npx -y', /the package after .* is missing/],
    ['npx --package', /the flag "--package"/],
    ['uvx --with evil a', /the flag "--with"/],
    ['uvx --index-url http://evil a', /the flag "--index-url"/],
    ['uvx --python /tmp/python a', /needs a version/],
    ['bunx --cwd x a', /the flag "--cwd"/],
    ['npm exec a', /"npm exec" downloads/],
    ['pnpm dlx a', /"pnpm dlx" downloads/],
    ['yarn dlx a', /"yarn dlx" downloads/],
    ['uv tool run a', /"uv tool run" downloads/],
    ['pipx run a', /"pipx run" downloads/],
    ['docker run -i --rm image', /"docker" would start the server outside/],
    ['/usr/bin/podman run image', /"podman" would start the server outside/],
  ])('%j', (line, reason) => {
    const error = caught(() => read(line));
    expect(error).toMatchObject({ code: 'SANDBOX_UNAVAILABLE', message: expect.stringMatching(reason) });
    expect(error).toMatchObject({ hint: expect.stringMatching(/^(?:Write it as|Use the image)/) });
  });
});

function caught(work: () => unknown): unknown {
  try {
    work();
  } catch (error) {
    if (isAmbitError(error)) return error;
    throw error;
  }
  return undefined;
}
