/**
 * What a person or a trusted program later runs, or takes orders from, without being asked. Servers in a sandbox and the
 * file tools of sessions may read these, but must not leave orders there.
 */
export const guardedNames: readonly string[] = [
  '.mcp.json',
  '.claude',
  '.codex',
  '.cursor',
  '.gemini',
  '.vscode',
  '.idea',
  '.devcontainer',
  '.husky',
  '.githooks',
  '.gitconfig',
  '.gitmodules',
  '.pre-commit-config.yaml',
  '.envrc',
  '.npmrc',
  '.yarnrc.yml',
  '.ssh',
  '.bashrc',
  '.bash_profile',
  '.profile',
  '.zshrc',
  '.zprofile',
  '.zshenv',
];
