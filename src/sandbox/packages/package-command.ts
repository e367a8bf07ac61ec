import { basename } from 'node:path';
import { AmbitError } from '../../errors.ts';

export type PackageTool = 'npx' | 'bunx' | 'uvx';

/** A command that names a package to fetch, and not an installed program. */
export interface PackageCommand {
  readonly tool: PackageTool;
  /** The name of the package, for Python with its extras. */
  readonly name: string;
  /** A version, range or tag; empty without one. */
  readonly wanted: string;
  /** The program of the package; undefined where the package decides. */
  readonly program: string | undefined;
  /** The runtime of the program: `--bun`, `--python 3.12`. */
  readonly runtime: string | undefined;
  readonly args: readonly string[];
}

const npmName = /^(?=.{1,214}$)(?:@[a-z0-9][a-z0-9._-]*\/)?[a-z0-9][a-z0-9._-]*$/;
const npmVersion = /^[\^~]?[0-9A-Za-z][0-9A-Za-z.+*-]{0,99}$/;
const pythonName = /^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?(?:\[[A-Za-z0-9,._-]{1,200}\])?$/;
const pythonVersion = /^[0-9A-Za-z][0-9A-Za-z.+!-]{0,99}$/;
const programName = /^[A-Za-z0-9_][A-Za-z0-9._-]{0,213}$/;

interface ToolSyntax {
  readonly quiet: readonly string[];
  /** Flags with a value. */
  readonly package: readonly string[];
  readonly runtime: readonly string[];
  readonly example: string;
}

const syntax: Readonly<Record<PackageTool, ToolSyntax>> = {
  npx: {
    quiet: ['-y', '--yes', '-q', '--quiet', '--silent'],
    package: ['-p', '--package'],
    runtime: [],
    example: 'npx -y some-package@1.2.3',
  },
  bunx: {
    quiet: ['-y', '--yes', '--silent', '--bun'],
    package: ['-p', '--package'],
    runtime: [],
    example: 'bunx some-package@1.2.3',
  },
  uvx: {
    quiet: ['-q', '--quiet'],
    package: ['--from'],
    runtime: ['-p', '--python'],
    example: 'uvx some-package@1.2.3',
  },
};

/** Other commands that do the same, with the tool to use instead. */
const equivalentCommands: readonly (readonly [words: readonly string[], PackageTool])[] = [
  [['npm', 'exec'], 'npx'],
  [['npm', 'x'], 'npx'],
  [['pnpm', 'dlx'], 'npx'],
  [['pnpx'], 'npx'],
  [['yarn', 'dlx'], 'npx'],
  [['bun', 'x'], 'bunx'],
  [['uv', 'tool', 'run'], 'uvx'],
  [['pipx', 'run'], 'uvx'],
];
const containers = new Set(['docker', 'podman', 'nerdctl']);

/** Undefined for an ordinary program. Throws for a command that would fetch something that cannot be pinned. */
export function readPackageCommand(command: string, args: readonly string[]): PackageCommand | undefined {
  const called = basename(command);
  if (containers.has(called)) {
    throw commandRefused(
      `"${called}" would start the server outside of the sandbox`,
      'Use the image directly, with sandbox: { image: … } instead of the command.',
    );
  }
  const words = [called, ...args];
  const same = equivalentCommands.find(([start]) => start.every((word, index) => words[index] === word));
  if (same !== undefined) {
    throw commandRefused(
      `"${same[0].join(' ')}" downloads the program that it starts`,
      `Write it as ${syntax[same[1]].example}.`,
    );
  }
  return Object.hasOwn(syntax, called) ? readToolArguments(called as PackageTool, args) : undefined;
}

/** The package as a person would write it, such as `name@1.2`. */
export function formatSpecifier({ name, wanted }: Pick<PackageCommand, 'name' | 'wanted'>): string {
  return wanted === '' ? name : `${name}@${wanted}`;
}

function readToolArguments(tool: PackageTool, args: readonly string[]): PackageCommand {
  const shape = syntax[tool];
  const found = { package: undefined as string | undefined, runtime: undefined as string | undefined };
  let at = 0;
  for (; at < args.length; at++) {
    const arg = args[at] as string;
    if (arg === '--') {
      at++;
      break;
    }
    if (!arg.startsWith('-')) break;
    if (arg === '--bun') found.runtime = 'bun';
    if (shape.quiet.includes(arg)) continue;
    const [flag, ...rest] = arg.startsWith('--') ? arg.split('=') : [arg];
    const kind = (['package', 'runtime'] as const).find((each) => shape[each].includes(flag as string));
    const value = rest.length > 0 ? rest.join('=') : args[++at];
    if (kind === undefined || value === undefined || found[kind] !== undefined) {
      throw commandRefused(`the flag "${flag}" of ${tool} cannot be used here`, `Write it as ${shape.example}.`);
    }
    found[kind] = value;
  }
  const [first, ...rest] = args.slice(at);
  const spec = found.package ?? first;
  if (spec === undefined || first === undefined) {
    throw commandRefused(`the package after "${tool}" is missing`, `Write it as ${shape.example}.`);
  }
  const { name, wanted } = tool === 'uvx' ? readPythonSpec(spec) : readNpmSpec(spec, tool);
  const program = found.package === undefined ? (tool === 'uvx' ? name.replace(/\[.*$/s, '') : undefined) : first;
  if (program !== undefined && !programName.test(program)) {
    throw commandRefused(`"${shortenText(program)}" is not the name of a program`, `Write it as ${shape.example}.`);
  }
  if (tool === 'uvx' && found.runtime !== undefined && !/^[0-9]+(?:\.[0-9]+){0,2}$/.test(found.runtime)) {
    throw commandRefused('--python needs a version', 'Write it as "--python 3.12".');
  }
  return { tool, name, wanted, program, runtime: found.runtime, args: rest };
}

function readNpmSpec(spec: string, tool: PackageTool): { name: string; wanted: string } {
  const at = spec.indexOf('@', 1);
  const [name, wanted] = at === -1 ? [spec, ''] : [spec.slice(0, at), spec.slice(at + 1)];
  if (npmName.test(name) && (at === -1 || npmVersion.test(wanted))) return { name, wanted };
  throw notAPackage(spec, tool);
}

function readPythonSpec(spec: string): { name: string; wanted: string } {
  const [, name = '', wanted] = /^(.*?)(?:(?:@|==)(.*))?$/s.exec(spec) ?? [];
  if (pythonName.test(name) && (wanted === undefined || pythonVersion.test(wanted))) {
    return { name, wanted: wanted === undefined || wanted === 'latest' ? '' : wanted };
  }
  throw notAPackage(spec, 'uvx');
}

function notAPackage(spec: string, tool: PackageTool): AmbitError {
  return commandRefused(
    `"${shortenText(spec)}" is not the name of a package in a registry, with an optional version`,
    `Write it as ${syntax[tool].example}; install a package from a folder or a repository first, and use its program as the command.`,
  );
}

function shortenText(text: string): string {
  const words = text.replace(/[^\x20-\x7e]/g, '?');
  return words.length > 100 ? `${words.slice(0, 100)}…` : words;
}

function commandRefused(why: string, hint: string): AmbitError {
  return new AmbitError('SANDBOX_UNAVAILABLE', {
    what: `This server cannot be started in a sandbox: ${why}.`,
    hint,
    rule: 'trust',
  });
}
