import { protectedNames, protectedPaths } from '../lib/fs/protected-paths.ts';

/**
 * Rules for paths of a workspace, as plain data that can be sent to another process. Patterns are globs relative to the
 * workspace. A pattern without a slash matches a name in any folder, and a rule for a folder holds for its entries.
 * Case and forms of accents do not matter. Copies by people and editors, such as `.env.bak`, are protected like their
 * originals.
 */
export interface PathRules {
  /** Neither readable nor writable. */
  readonly hidden: readonly string[];
  /** Readable, but not writable. */
  readonly kept: readonly string[];
  /** Open although a pattern above matches. */
  readonly open: readonly string[];
  /** Neither readable nor writable, unless `shown` matches. */
  readonly secret?: readonly string[];
  /** Exceptions from `secret`. They do not open `hidden` or `kept` paths, since a folder in those may have any name. */
  readonly shown?: readonly string[];
}

/** Keys, passwords and other secrets in working folders. */
const defaultSecrets: readonly string[] = [
  '.env',
  '.env.*',
  '.envrc',
  '*.pem',
  '*.key',
  '*.p12',
  '*.pfx',
  '*.jks',
  '*.keystore',
  '*.kdbx',
  'id_rsa*',
  'id_dsa*',
  'id_ecdsa*',
  'id_ed25519*',
  '.ssh',
  '.gnupg',
  '.aws',
  '.azure',
  '.kube',
  '**/.docker/config.json',
  '.dockercfg',
  '**/.config/gcloud',
  '**/.config/gh',
  '.pypirc',
  '.boto',
  '.s3cfg',
  '**/.cargo/credentials',
  '**/.cargo/credentials.toml',
  '**/.gem/credentials',
  '**/.terraform.d/credentials.tfrc.json',
  '.netrc',
  '_netrc',
  '.pgpass',
  '.git-credentials',
  '**/.git/credentials',
  '.htpasswd',
  '.vault-token',
  '.dev.vars',
  '.dev.vars.*',
  '**/.streamlit/secrets.toml',
  // A file of PHP's composer. In other folders it often holds texts.
  '/auth.json',
  '**/.composer/auth.json',
  '**/.config/composer/auth.json',
  '*.tfvars',
  '*.tfvars.json',
  '*.tfstate',
  '*.tfstate.*',
];

/** Templates without secrets, and public keys. */
const defaultShown: readonly string[] = ['.env', '.dev.vars']
  .flatMap((name) => ['example', 'sample', 'template', 'dist'].map((ending) => `${name}.${ending}`))
  .concat('*.pub');

/** The repository, and files that other programs run or obey. */
const defaultKept: readonly string[] = ['.git', ...protectedNames, ...protectedPaths.map((path) => `**/${path}`)];

export interface ConfiguredPaths {
  readonly hide: readonly string[];
  readonly keep: readonly string[];
  readonly open: readonly string[];
}

/** Creates the default rules, with the given patterns added. */
export function createPathRules({ hide = [], keep = [], open = [] }: Partial<ConfiguredPaths> = {}): PathRules {
  return {
    hidden: hide,
    secret: defaultSecrets,
    kept: [...defaultKept, ...keep],
    open,
    shown: defaultShown,
  };
}
