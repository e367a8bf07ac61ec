import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createPathGuard } from '../../src/workspaces/path-guard.ts';
import { createPathRules } from '../../src/workspaces/path-rules.ts';

describe('W7: the guard', () => {
  const guard = createPathGuard(
    createPathRules({ hide: ['secrets/**/*.json'], keep: ['deploy/'], open: ['.vscode/a.json'] }),
  );
  const verdict = (path: string) =>
    guard.refusal('read', path.split('/')) !== undefined
      ? 'hidden'
      : guard.refusal('write', path.split('/')) !== undefined
        ? 'kept'
        : 'free';

  test.each([
    ['src/index.ts', 'free'],
    ['environment', 'free'],
    ['.envoy', 'free'],
    ['.github/workflows/x.yml', 'kept'],
    ['.github/ISSUE_TEMPLATE/bug.md', 'free'],
    ['packages/a/agents.MD', 'kept'],
    ['Makefile', 'free'],
    ['.gitignore', 'free'],
    ['a/b/.env', 'hidden'],
    ['.env.production', 'hidden'],
    ['.env.example', 'free'],
    ['.env.example/.env', 'hidden'],
    ['.ENV.Local', 'hidden'],
    ['.env.', 'hidden'],
    ['.env...  ', 'hidden'],
    ['.env:stream', 'hidden'],
    ['.env.:x', 'hidden'],
    ['id_rsa.pub', 'free'],
    ['id_rsa.pub:x', 'hidden'],
    ['.s\u200dsh/x', 'hidden'],
    ['.\uff53\uff53\uff48/x', 'hidden'],
    ['.AWS', 'hidden'],
    ['.docker/config.json', 'hidden'],
    ['.DOCKER/CONFIG.json.', 'hidden'],
    ['.docker/other.json', 'free'],
    ['home/me/.docker/config.json', 'hidden'],
    ['secrets/a/b/c.json', 'hidden'],
    ['secrets/c.json', 'hidden'],
    ['secrets/c.txt', 'free'],
    ['.git', 'kept'],
    ['.GIT/hooks/x', 'kept'],
    ['.g\u0131t/config', 'kept'],
    ['sub/.git/config', 'kept'],
    ['.git /config', 'kept'],
    ['.git/x/.env', 'hidden'],
    ['deploy', 'kept'],
    ['deploy/a', 'kept'],
    ['x/deploy/a', 'kept'],
    ['.vscode/a.json', 'free'],
    ['.vscode/b.json', 'kept'],
    ['.vscode', 'kept'],
    ['.git/hooks/x.pub', 'kept'],
    ['.devcontainer/x.pub/devcontainer.json', 'kept'],
    ['.claude/skills/.env.example/SKILL.md', 'kept'],
    ['.ssh/id_rsa.pub', 'kept'],
  ])('%s is %s', (path, expected) => {
    expect(verdict(path)).toBe(expected);
  });

  test.each([
    ['customers/list.pub/all.csv', 'hidden'],
    ['customers/notes.pub', 'hidden'],
    ['customers/.env.template', 'hidden'],
    ['team.pub', 'hidden'],
    ['other.pub', 'free'],
    ['.ssh/other.pub', 'free'],
    ['customers/open/x.pub', 'free'],
  ])('S4: what the operator hides is not shown for its name: %s is %s', (path, expected) => {
    const rules = createPathRules({ hide: ['customers', 'team.pub'], keep: [], open: ['customers/open'] });
    const why = createPathGuard(rules).refusal('read', path.split('/'));
    expect(why === undefined ? 'free' : 'hidden').toBe(expected);
  });

  test('forms of accents make no difference', () => {
    const named = createPathGuard({ hidden: ['Schlüssel'], kept: [], open: [] });
    for (const name of ['schlüssel', 'SCHLU\u0308SSEL', 'Schlu\u0308ssel', 'Schlüßel'.replace('ß', 'ss')]) {
      expect(named.refusal('read', [name])).toBeDefined();
    }
  });

  test('other case or invisible characters open nothing', () => {
    const odd = (name: string) =>
      fc
        .array(fc.tuple(fc.boolean(), fc.constantFrom('', '', '', '\u200b', '\u00ad', '\ufe0f')), {
          minLength: name.length,
          maxLength: name.length,
        })
        .map((how) =>
          [...name].map((letter, at) => (how[at]?.[0] ? letter.toUpperCase() : letter) + (how[at]?.[1] ?? '')).join(''),
        );
    const closed = fc.constantFrom('.env', '.git', '.ssh', '.netrc', 'id_ed25519', '.mcp.json').chain(odd);
    fc.assert(
      fc.property(closed, fc.constantFrom('', '.', ' ', '. .', ':$DATA'), (name, end) => {
        expect(guard.refusal('write', ['a', name + end, 'x'])).toBeDefined();
      }),
    );
  });
});
