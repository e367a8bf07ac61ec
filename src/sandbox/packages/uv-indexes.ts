import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { AmbitError } from '../../errors.ts';

/** An index of Python packages. */
export interface UvIndex {
  readonly url: string;
  readonly name?: string | undefined;
  readonly user?: string | undefined;
  readonly password?: string | undefined;
}

export interface UvIndexes {
  readonly default: UvIndex;
  readonly further: readonly UvIndex[];
}

const pypi = { url: 'https://pypi.org/simple' };
/** Settings in a file of uv that say where packages come from. */
const decides =
  /^[ \t]*(?:\[\[?(?:pip\.)?index\]\]?|(?:pip\.)?(?:index|index-url|extra-index-url|default-index|find-links)\s*=)/m;

/** Where the user's uv looks for packages, by the environment. A file that says something else is refused, not passed over. */
export function readUvIndexes(env: NodeJS.ProcessEnv): UvIndexes {
  const named = (name: string) => env[name] || undefined;
  const first = named('UV_DEFAULT_INDEX') ?? named('UV_INDEX_URL');
  if (first === undefined) refuseFiles(env);
  const further = `${named('UV_INDEX') ?? ''} ${named('UV_EXTRA_INDEX_URL') ?? ''}`.split(/\s+/);
  return {
    default: first === undefined ? pypi : readIndex(first, env),
    further: further.filter((each) => each !== '').map((each) => readIndex(each, env)),
  };
}

/** `name=url`, or the URL alone. */
function readIndex(text: string, env: NodeJS.ProcessEnv): UvIndex {
  const [, name, url = ''] = /^(?:([A-Za-z0-9_.-]+)=)?(.*)$/s.exec(text) ?? [];
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) {
    throw refusal('an index of uv is not the URL of a registry', 'Set UV_DEFAULT_INDEX to a URL with https.');
  }
  const known = name?.toUpperCase().replace(/[^A-Z0-9]/g, '_');
  return { url, name, user: env[`UV_INDEX_${known}_USERNAME`], password: env[`UV_INDEX_${known}_PASSWORD`] };
}

/** Without this, packages would come from the public index in place of the one that the file names. */
function refuseFiles(env: NodeJS.ProcessEnv): void {
  const config = env['XDG_CONFIG_HOME'] ?? join(env['HOME'] ?? '/', '.config');
  const files = [env['UV_CONFIG_FILE'], join(config, 'uv/uv.toml'), '/etc/uv/uv.toml'];
  for (const file of files) {
    if (file === undefined || !existsSync(file) || !decides.test(readFileSync(file, 'utf8'))) continue;
    throw refusal(
      'a configuration file of uv says where packages come from',
      'Set UV_DEFAULT_INDEX for Ambit as well.',
    );
  }
}

function refusal(why: string, hint: string): AmbitError {
  return new AmbitError('UPSTREAM_FAILED', { what: `Nothing can be fetched for uvx: ${why}.`, hint });
}
