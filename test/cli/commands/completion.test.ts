import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { commands } from '../../../src/cli/commands.ts';
import { proof } from '../../proof.ts';
import { ambitInProcess } from '../in-process.ts';

const folder = mkdtempSync(join(tmpdir(), 'ambit-completion-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** What is typed before the cursor, and some of the words that are then offered, or all of them. */
const lines: readonly (readonly [line: string, offered: readonly string[], isAll?: boolean])[] = [
  ['ambit ', ['serve', 'session', 'completion', 'help']],
  ['ambit sess', ['session'], true],
  ['ambit session ', ['create', 'list', 'diff']],
  ['ambit session cr', ['create'], true],
  ['ambit help session cr', ['create'], true],
  ['ambit session create --tr', ['--trust'], true],
  ['ambit session create --trust ', ['direct', 'sandboxed'], true],
  ['ambit session create --name x --trust s', ['sandboxed'], true],
  ['ambit --config x.yaml session create --trust d', ['direct'], true],
  ['ambit session create --no', [], true],
  ['ambit session restrict abc --no', ['--no-permissions'], true],
  ['ambit run --tr', ['--trust'], true],
  ['ambit completion ', ['bash', 'zsh', 'fish'], true],
  ['ambit completion z', ['zsh'], true],
  ['ambit completion zsh --da', ['--data-dir'], true],
  ['ambit policy add --mode ', ['append', 'prepend'], true],
  ['ambit session create $(touch x)`touch x` --tru', ['--trust'], true],
];

/** Asks a shell for the words that it offers behind each line; one process answers all. */
function complete(shell: string, driver: string): string[][] {
  const file = join(folder, `driver.${shell}`);
  writeFileSync(file, driver);
  const options = { cwd: folder, encoding: 'utf8', env: { ...process.env, HOME: folder, ZDOTDIR: folder } } as const;
  const args = shell === 'zsh' ? ['-f', file] : shell === 'fish' ? ['--no-config', file] : ['--norc', file];
  const answer = execFileSync(shell, args, options);
  return answer
    .split('== ')
    .slice(1)
    .map((block) => block.split('\n').slice(1).filter(Boolean));
}

const isInstalled = (shell: string) => spawnSync(shell, ['--version']).status === 0;

function expectOffers(offers: readonly (readonly string[])[]): void {
  expect(offers).toHaveLength(lines.length);
  for (const [i, [line, expected, isAll]] of lines.entries()) {
    const offered = [...(offers[i] ?? [])].sort();
    const wanted = isAll ? [...expected].sort() : expect.arrayContaining([...expected]);
    expect({ line, offered }).toEqual({ line, offered: wanted });
  }
  // Nothing that was typed is run.
  expect(existsSync(join(folder, 'x'))).toBe(false);
}

const quote = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`;

beforeAll(async () => {
  for (const shell of ['bash', 'zsh', 'fish']) {
    const { code, stdout, stderr } = await ambitInProcess(['completion', shell]);
    expect([code, stderr]).toEqual([0, '']);
    writeFileSync(join(folder, `ambit.${shell}`), stdout);
  }
});

describe('completion', () => {
  test('bash offers commands, flags and fixed values', () => {
    const asked = lines.map(([line]) => {
      const words = line.split(' ').map(quote);
      return `COMP_WORDS=(${words.join(' ')}); COMP_CWORD=${words.length - 1}; COMPREPLY=()
echo "== "; _ambit; printf '%s\\n' "\${COMPREPLY[@]}"`;
    });
    const driver = ['source ./ambit.bash', 'complete -p ambit >/dev/null || exit 1', ...asked];
    expectOffers(complete('bash', driver.join('\n')));
  });

  test('bash completes behind "=", and leaves what stands behind "--" alone', () => {
    const driver = `source ./ambit.bash
COMP_WORDS=(ambit session create --trust = s); COMP_CWORD=5
echo "== "; _ambit; printf '%s\\n' "\${COMPREPLY[@]}"
COMP_WORDS=(ambit run -- ambit se); COMP_CWORD=4
echo "== "; _ambit; printf '%s\\n' "\${COMPREPLY[@]}"
echo "== "
for noun in ${[...new Set(commands.map(({ path }) => path[0]))].join(' ')}; do
  COMP_WORDS=(ambit $noun --); COMP_CWORD=2
  _ambit; [[ " \${COMPREPLY[*]} " == *" --config "* ]] || echo "$noun has no flags"
done`;
    expect(complete('bash', driver)).toEqual([['sandboxed'], [], []]);
  });

  test.runIf(proof && isInstalled('fish'))('fish offers the same', () => {
    const asked = lines.map(([line]) => `echo "== "; complete -C ${quote(line)} | string replace -r '\\t.*' ''`);
    expectOffers(complete('fish', ['source ./ambit.fish', ...asked].join('\n')));
  });

  test.runIf(proof && isInstalled('zsh'))('zsh offers the same', () => {
    // The functions that show the offers print them instead.
    const driver = `autoload -Uz compinit && compinit -u -d ./dump
source ./ambit.zsh
_describe() { [[ $1 == -o ]] && shift; local -a all=("\${(@P)2}"); show "\${all[@]%%:*}" }
compadd() { shift; show "$@" }
_message() { : }
_files() { : }
compset() { : }
show() { local each; for each; do [[ $each == \${words[CURRENT]}* ]] && print -r -- $each; done }
${lines
  .map(([line]) => {
    const words = line.split(' ').map(quote);
    return `words=(${words.join(' ')}); CURRENT=${words.length}; echo "== "; _ambit`;
  })
  .join('\n')}
exit 0`;
    expectOffers(complete('zsh', driver));
  });
});
