import { guardedNames, guardedPaths } from '../lib/fs/guarded-names.ts';

/**
 * What sessions may not do to which paths of a workspace, as plain data, so that it can be handed to where the files lie.
 * Patterns are globs over paths relative to the workspace; one without a slash fits a name in any folder, and whatever
 * fits a folder holds for all that is in it. Case and the ways to write an accent make no difference. Copies that people and
 * editors leave, such as `.env.bak`, are closed as what they are copies of.
 */
export interface PathRules {
  /** Neither read nor written. */
  readonly hidden: readonly string[];
  /** Read, but not written. */
  readonly kept: readonly string[];
  /** Free although a pattern above fits. */
  readonly open: readonly string[];
  /** Neither read nor written, where nothing of `shown` fits. */
  readonly secret?: readonly string[];
  /** No secret although a pattern of `secret` fits. What is hidden or kept stays so: a folder in it may bear any name. */
  readonly shown?: readonly string[];
}

/** Keys, passwords and other secrets that lie about in the folders people work in. */
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
  // Of PHP's composer. In other folders it is often a file of texts.
  '/auth.json',
  '**/.composer/auth.json',
  '**/.config/composer/auth.json',
  '*.tfvars',
  '*.tfvars.json',
  '*.tfstate',
  '*.tfstate.*',
];

/** Copies without secrets that projects keep beside the real thing, and halves of keys that are public. */
const defaultShown: readonly string[] = ['.env', '.dev.vars']
  .flatMap((name) => ['example', 'sample', 'template', 'dist'].map((ending) => `${name}.${ending}`))
  .concat('*.pub');

/** The repository, and what others run or take orders from. */
const defaultKept: readonly string[] = ['.git', ...guardedNames, ...guardedPaths.map((path) => `**/${path}`)];

export interface ConfiguredPaths {
  readonly hide: readonly string[];
  readonly keep: readonly string[];
  readonly open: readonly string[];
}

export function pathRules({ hide, keep, open }: ConfiguredPaths): PathRules {
  return {
    hidden: hide,
    secret: defaultSecrets,
    kept: [...defaultKept, ...keep],
    open,
    shown: defaultShown,
  };
}
