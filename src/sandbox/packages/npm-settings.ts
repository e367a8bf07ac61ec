import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { lookUp } from '../common/look-up.ts';
import { type NpmrcValues, readNpmrc } from './npmrc.ts';

type Settings = Readonly<Record<string, string | readonly string[]>>;

const prefix = /^npm_config_/i;

/**
 * Whether a `.npmrc` of a project has had a say in the environment: where npx has started Ambit there, npm passes on what
 * the file sets as if the user had set it, and the project may be hostile.
 */
export function isSetByProject(env: NodeJS.ProcessEnv): boolean {
  const project = env['npm_config_local_prefix'];
  const file = project === undefined ? undefined : realpathIfThere(join(project, '.npmrc'));
  // In the home folder it is the user's own file.
  return file !== undefined && file !== realpathIfThere(join(env['HOME'] ?? '', '.npmrc'));
}

/**
 * The environment without any setting of npm. Which of them a project has made cannot be told from its file: npm has
 * read that with variables of its own.
 */
export function withoutNpmSettings(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !prefix.test(name)));
}

/** What the user has npm set to: by the environment, by the user's file, by the machine's, in this order. */
export function readNpmSettings(env: NodeJS.ProcessEnv, npm: string): Settings {
  const byEnvironment = readEnvironment(env);
  const builtIn = readNpmrc(readIfThere(join(dirname(dirname(realpathSync.native(npm))), 'npmrc')), env);
  const ofUser = readFile(byEnvironment['userconfig'] ?? join(env['HOME'] ?? '/', '.npmrc'), env);
  const places = { ...builtIn, ...ofUser, ...byEnvironment };
  const home = places['prefix'] ?? env['PREFIX'] ?? prefixOfNode(env['PATH']);
  const ofMachine = readFile(places['globalconfig'] ?? join(String(home), 'etc/npmrc'), env);
  return { ...builtIn, ...ofMachine, ...ofUser, ...byEnvironment };
}

function readEnvironment(env: NodeJS.ProcessEnv): Record<string, string> {
  const found: Record<string, string> = {};
  for (const [name, value] of Object.entries(env)) {
    if (!prefix.test(name) || value === undefined || value === '') continue;
    const rest = name.replace(prefix, '');
    found[rest.startsWith('//') ? rest : rest.replace(/(?!^)_/g, '-').toLowerCase()] = value;
  }
  return found;
}

function prefixOfNode(searchPath: string | undefined): string {
  const node = lookUp('node', searchPath);
  return node === undefined ? '/usr' : dirname(dirname(realpathSync.native(node)));
}

function readFile(path: string | readonly string[], env: NodeJS.ProcessEnv): NpmrcValues {
  return readNpmrc(readIfThere(resolve(env['HOME'] ?? '/', String(path).replace(/^~(?=\/)/, env['HOME'] ?? '~'))), env);
}

function readIfThere(path: string): string {
  return existsSync(path) ? readFileSync(path, 'utf8') : '';
}

function realpathIfThere(path: string): string | undefined {
  return existsSync(path) ? realpathSync.native(path) : undefined;
}
