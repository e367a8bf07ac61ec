/**
 * Names that sessions may not read, or may not change, unless an operator says otherwise. They are written down here and
 * not taken from the code: a name that disappears from the code is then noticed.
 */

/** Secrets. For a pattern there is a name that no other pattern fits. */
export const hiddenNames = [
  '.env',
  '.env.production',
  'server.pem',
  'server.key',
  'client.p12',
  'client.pfx',
  'store.jks',
  'release.keystore',
  'passwords.kdbx',
  'id_rsa',
  'id_rsa_work',
  'id_dsa.old',
  'id_ecdsa',
  'id_ecdsa_sk',
  'id_ed25519',
  'id_ed25519_sk',
  '.ssh',
  '.gnupg',
  '.aws',
  '.azure',
  '.kube',
  '.docker/config.json',
  '.netrc',
  '_netrc',
  '.pgpass',
  '.git-credentials',
  '.htpasswd',
  '.vault-token',
] as const;

/** Folders of settings that a person or a trusted program follows without being asked. */
export const keptFolders = [
  '.claude',
  '.codex',
  '.cursor',
  '.gemini',
  '.vscode',
  '.idea',
  '.devcontainer',
  '.husky',
  '.githooks',
] as const;

/** The same for single files. */
export const keptFiles = [
  '.mcp.json',
  '.gitconfig',
  '.gitmodules',
  '.pre-commit-config.yaml',
  '.envrc',
  '.npmrc',
  '.yarnrc.yml',
  '.bashrc',
  '.bash_profile',
  '.profile',
  '.zshrc',
  '.zprofile',
  '.zshenv',
] as const;

/** They look like secrets and are none. */
export const openNames = [
  '.env.example',
  '.env.sample',
  '.env.template',
  '.env.dist',
  'id_rsa.pub',
  'key.pub',
] as const;
