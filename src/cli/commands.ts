import type { Command } from './command.ts';

/** A command by its words. Its code is loaded when it is called, so that listing sessions does not load a gateway. */
export interface CommandEntry {
  readonly path: readonly string[];
  readonly load: () => Promise<Command>;
}

export interface LoadedCommand extends Command, Pick<CommandEntry, 'path'> {}

export async function loadCommand({ path, load }: CommandEntry): Promise<LoadedCommand> {
  return { path, ...(await load()) };
}

export const commands: readonly CommandEntry[] = [
  { path: ['init'], load: async () => (await import('./commands/init.ts')).initCommand },
  { path: ['serve'], load: async () => (await import('./commands/serve.ts')).serveCommand },
  { path: ['stdio'], load: async () => (await import('./commands/stdio.ts')).stdioCommand },
  { path: ['run'], load: async () => (await import('./commands/run.ts')).runCommand },
  { path: ['status'], load: async () => (await import('./commands/status.ts')).statusCommand },
  { path: ['open'], load: async () => (await import('./commands/console.ts')).openCommand },
  { path: ['logs'], load: async () => (await import('./commands/status.ts')).logsCommand },
  { path: ['stop'], load: async () => (await import('./commands/status.ts')).stopCommand },
  { path: ['session', 'create'], load: async () => (await import('./commands/session.ts')).sessionCreate },
  { path: ['session', 'list'], load: async () => (await import('./commands/session.ts')).sessionList },
  { path: ['session', 'tree'], load: async () => (await import('./commands/session-tree.ts')).sessionTree },
  { path: ['session', 'watch'], load: async () => (await import('./commands/session-tree.ts')).sessionWatch },
  { path: ['session', 'show'], load: async () => (await import('./commands/session.ts')).sessionShow },
  {
    path: ['session', 'inspect'],
    load: async () => (await import('./commands/session-inspect.ts')).sessionInspect,
  },
  {
    path: ['session', 'message'],
    load: async () => (await import('./commands/session-inspect.ts')).sessionMessage,
  },
  { path: ['session', 'end'], load: async () => (await import('./commands/session.ts')).sessionEnd },
  { path: ['session', 'restrict'], load: async () => (await import('./commands/session.ts')).sessionRestrict },
  { path: ['session', 'diff'], load: async () => (await import('./commands/session-folder.ts')).sessionDiff },
  { path: ['session', 'merge'], load: async () => (await import('./commands/session-folder.ts')).sessionMerge },
  { path: ['session', 'discard'], load: async () => (await import('./commands/session-folder.ts')).sessionDiscard },
  { path: ['resolve'], load: async () => (await import('./commands/resolve.ts')).resolveCommand },
  { path: ['explain'], load: async () => (await import('./commands/resolve.ts')).explainCommand },
  { path: ['server', 'list'], load: async () => (await import('./commands/server.ts')).serverList },
  { path: ['server', 'show'], load: async () => (await import('./commands/server.ts')).serverShow },
  { path: ['server', 'add'], load: async () => (await import('./commands/server-edit.ts')).serverAdd },
  { path: ['server', 'remove'], load: async () => (await import('./commands/server-edit.ts')).serverRemove },
  { path: ['server', 'search'], load: async () => (await import('./commands/server-edit.ts')).serverSearch },
  { path: ['server', 'check'], load: async () => (await import('./commands/server-approve.ts')).serverCheck },
  { path: ['server', 'approve'], load: async () => (await import('./commands/server-approve.ts')).serverApprove },
  { path: ['credential', 'set'], load: async () => (await import('./commands/credential.ts')).credentialSet },
  { path: ['credential', 'list'], load: async () => (await import('./commands/credential.ts')).credentialList },
  { path: ['credential', 'remove'], load: async () => (await import('./commands/credential.ts')).credentialRemove },
  { path: ['user', 'add'], load: async () => (await import('./commands/user.ts')).userAdd },
  { path: ['user', 'list'], load: async () => (await import('./commands/user.ts')).userList },
  { path: ['user', 'remove'], load: async () => (await import('./commands/user.ts')).userRemove },
  { path: ['team', 'list'], load: async () => (await import('./commands/user.ts')).teamList },
  { path: ['key', 'create'], load: async () => (await import('./commands/user.ts')).keyCreate },
  { path: ['key', 'list'], load: async () => (await import('./commands/user.ts')).keyList },
  { path: ['key', 'revoke'], load: async () => (await import('./commands/user.ts')).keyRevoke },
  { path: ['key', 'rotate'], load: async () => (await import('./commands/user.ts')).keyRotate },
  { path: ['console', 'list'], load: async () => (await import('./commands/console.ts')).consoleList },
  { path: ['console', 'revoke'], load: async () => (await import('./commands/console.ts')).consoleRevoke },
  { path: ['login'], load: async () => (await import('./commands/login.ts')).loginCommand },
  { path: ['policy', 'add'], load: async () => (await import('./commands/policy.ts')).policyAdd },
  { path: ['policy', 'list'], load: async () => (await import('./commands/policy.ts')).policyList },
  { path: ['policy', 'remove'], load: async () => (await import('./commands/policy.ts')).policyRemove },
  { path: ['objective', 'add'], load: async () => (await import('./commands/policy.ts')).objectiveAdd },
  { path: ['objective', 'list'], load: async () => (await import('./commands/policy.ts')).objectiveList },
  { path: ['objective', 'remove'], load: async () => (await import('./commands/policy.ts')).objectiveRemove },
  { path: ['audit', 'tail'], load: async () => (await import('./commands/audit.ts')).auditTail },
  { path: ['audit', 'search'], load: async () => (await import('./commands/audit.ts')).auditSearch },
  { path: ['audit', 'show'], load: async () => (await import('./commands/audit.ts')).auditShow },
  { path: ['stats'], load: async () => (await import('./commands/stats.ts')).statsCommand },
  { path: ['process', 'list'], load: async () => (await import('./commands/stats.ts')).processList },
  { path: ['workspace', 'list'], load: async () => (await import('./commands/workspace.ts')).workspaceList },
  { path: ['workspace', 'show'], load: async () => (await import('./commands/workspace.ts')).workspaceShow },
  { path: ['rule', 'list'], load: async () => (await import('./commands/resolve.ts')).ruleList },
  { path: ['doctor'], load: async () => (await import('./commands/doctor.ts')).doctorCommand },
  { path: ['client'], load: async () => (await import('./commands/client.ts')).clientCommand },
  { path: ['import'], load: async () => (await import('./commands/import.ts')).importCommand },
  { path: ['completion'], load: async () => (await import('./commands/completion.ts')).completionCommand },
];

/** One line of help for each first word that has subcommands. The other commands have a help text of their own. */
export const nounSummaries: Readonly<Record<string, string>> = {
  session: 'Create, inspect, restrict and end sessions',
  server: 'Manage MCP servers and their approvals',
  workspace: 'Show the workspaces of the configuration',
  rule: 'Show the rules that allow and deny tools',
  user: 'Add, list and remove users',
  team: 'List teams and their members',
  key: 'Create, list, rotate and revoke API keys',
  console: 'List and sign out web consoles',
  credential: 'Store per-user credentials for servers',
  process: 'List running server processes',
  audit: 'Read the journal of calls, refusals and changes',
  policy: 'Manage the policies that models are given',
  objective: 'Manage the objectives that models are given',
};

/**
 * The help of commands without subcommands that are in the overview. It is repeated here so that `ambit` alone loads no
 * command; a test compares it with the help of each command.
 */
export const overviewSummaries: Readonly<Record<string, string>> = {
  init: 'Write a first configuration from what is on this machine',
  client: 'Connect an MCP client to Ambit',
  run: 'Run one stdio server in a session; needs no configuration',
  doctor: 'Check what this machine supports and how to fix the rest',
  serve: 'Start the gateway over HTTP',
  status: 'Show the running gateway, its sessions and servers',
};

/** The commands that "ambit help" describes; all others are only named there. */
export const overviewGroups: readonly { readonly title: string; readonly nouns: readonly string[] }[] = [
  { title: 'Get started', nouns: ['init', 'client', 'run', 'doctor'] },
  { title: 'Run the gateway', nouns: ['serve', 'status'] },
  { title: 'Manage', nouns: ['session', 'server'] },
];
