/**
 * What a person's own tools run or take orders from merely because they are used in the folder: shells, git, editors,
 * package managers, agents. Servers in a sandbox and the file tools of sessions may read these, but must not leave orders
 * there. What is run on purpose, such as a Makefile, is not among them. `*` stands for any characters.
 */
export const guardedNames: readonly string[] = [
  // Agents, and the servers they start.
  '.mcp.json',
  'AGENT.md',
  'AGENTS.md',
  'AGENTS.override.md',
  'CLAUDE.md',
  'CLAUDE.local.md',
  'GEMINI.md',
  'WARP.md',
  '.agents',
  '.aider.conf.yml',
  '.amazonq',
  '.claude',
  '.clinerules',
  '.codex',
  '.continue',
  '.cursor',
  '.cursorrules',
  '.gemini',
  '.junie',
  '.kilocode',
  '.kiro',
  '.opencode',
  'opencode.json',
  'opencode.jsonc',
  'crush.json',
  '.crush.json',
  '.qwen',
  '.roo',
  '.roomodes',
  '.roorules',
  '.windsurf',
  '.windsurfrules',
  // Editors, debuggers and shells of languages.
  '.vscode',
  '*.code-workspace',
  '.idea',
  '.zed',
  '.helix',
  '.devcontainer',
  '.devcontainer.json',
  '*.sublime-project',
  '.dir-locals.el',
  '.dir-locals-2.el',
  '.exrc',
  '.nvimrc',
  '.nvim.lua',
  '.vimrc',
  '.gdbinit',
  '.lldbinit',
  '.Rprofile',
  '.pryrc',
  '.irbrc',
  '.ghci',
  '.iex.exs',
  // Git and its like, and what hooks that are installed read.
  '.gitconfig',
  '.gitmodules',
  '.githooks',
  '.husky',
  '.hg',
  '.jj',
  '.pre-commit-config.yaml',
  'lefthook*',
  '.lefthook*',
  '.overcommit.yml',
  // Package managers and version managers.
  '.npmrc',
  '.yarnrc*',
  '.pnpmfile.*',
  '.corepack.env',
  '.pnp.*',
  'mise.toml',
  '.mise.toml',
  'mise.*.toml',
  '.mise.*.toml',
  '.tool-versions',
  '.rvmrc',
  '.mise',
  // Shells.
  '.envrc',
  '.ssh',
  '.bashrc',
  '.bash_aliases',
  '.bash_login',
  '.bash_logout',
  '.bash_profile',
  '.profile',
  '.zshrc',
  '.zprofile',
  '.zshenv',
  '.zlogin',
  '.zlogout',
];

/** The same for what has such a meaning only in a certain folder, wherever that folder lies. */
export const guardedPaths: readonly string[] = [
  '.cargo/config',
  '.cargo/config.toml',
  '.config/mise',
  '.config/mise.toml',
  '.github/agents',
  '.github/actions',
  '.github/copilot-instructions.md',
  '.github/instructions',
  '.github/prompts',
  '.github/workflows',
  '.yarn/plugins',
  '.yarn/releases',
];

const fits = new RegExp(`^(?:${guardedNames.map(asExpression).join('|')})$`, 'i');

/** Whether a file or folder of this name is guarded, in whatever case it is written. */
export function isGuardedName(name: string): boolean {
  return fits.test(name);
}

/** A name as part of a regular expression; `*` stops at a slash. */
export function asExpression(name: string): string {
  return name.replace(/[.+?^${}()|[\]\\/]/g, '\\$&').replaceAll('*', '[^/]*');
}
