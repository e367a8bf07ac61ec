import type { Command } from './command.ts';

/** A verb by its name; what it does is loaded when it is meant, so that listing sessions need not load a gateway. */
export interface Verb {
  readonly path: readonly string[];
  readonly load: () => Promise<Command>;
}

export const verbs: readonly Verb[] = [
  { path: ['serve'], load: async () => (await import('./serve.ts')).serveCommand },
  { path: ['stdio'], load: async () => (await import('./stdio.ts')).stdioCommand },
  { path: ['run'], load: async () => (await import('./run.ts')).runCommand },
  { path: ['session', 'create'], load: async () => (await import('./session-create.ts')).sessionCreate },
  { path: ['session', 'list'], load: async () => (await import('./session-list.ts')).sessionList },
  { path: ['session', 'show'], load: async () => (await import('./session-show.ts')).sessionShow },
  { path: ['session', 'end'], load: async () => (await import('./session-end.ts')).sessionEnd },
  { path: ['session', 'restrict'], load: async () => (await import('./session-restrict.ts')).sessionRestrict },
  { path: ['session', 'diff'], load: async () => (await import('./session-diff.ts')).sessionDiff },
  { path: ['session', 'merge'], load: async () => (await import('./session-merge.ts')).sessionMerge },
  { path: ['session', 'discard'], load: async () => (await import('./session-discard.ts')).sessionDiscard },
  { path: ['resolve'], load: async () => (await import('./resolve.ts')).resolveCommand },
  { path: ['explain'], load: async () => (await import('./explain.ts')).explainCommand },
  { path: ['server', 'list'], load: async () => (await import('./server-list.ts')).serverList },
  { path: ['server', 'check'], load: async () => (await import('./server-check.ts')).serverCheck },
  { path: ['server', 'approve'], load: async () => (await import('./server-approve.ts')).serverApprove },
  { path: ['credential', 'set'], load: async () => (await import('./credential-set.ts')).credentialSet },
  { path: ['credential', 'list'], load: async () => (await import('./credential-list.ts')).credentialList },
  { path: ['credential', 'remove'], load: async () => (await import('./credential-remove.ts')).credentialRemove },
  { path: ['user', 'add'], load: async () => (await import('./user-add.ts')).userAdd },
  { path: ['user', 'list'], load: async () => (await import('./user-list.ts')).userList },
  { path: ['user', 'remove'], load: async () => (await import('./user-remove.ts')).userRemove },
  { path: ['team', 'list'], load: async () => (await import('./team-list.ts')).teamList },
  { path: ['key', 'create'], load: async () => (await import('./key-create.ts')).keyCreate },
  { path: ['key', 'list'], load: async () => (await import('./key-list.ts')).keyList },
  { path: ['key', 'revoke'], load: async () => (await import('./key-revoke.ts')).keyRevoke },
  { path: ['key', 'rotate'], load: async () => (await import('./key-rotate.ts')).keyRotate },
  { path: ['login'], load: async () => (await import('./login.ts')).loginCommand },
  { path: ['policy', 'add'], load: async () => (await import('./policy-add.ts')).policyAdd },
  { path: ['policy', 'list'], load: async () => (await import('./policy-list.ts')).policyList },
  { path: ['policy', 'remove'], load: async () => (await import('./policy-remove.ts')).policyRemove },
  { path: ['objective', 'add'], load: async () => (await import('./objective-add.ts')).objectiveAdd },
  { path: ['objective', 'list'], load: async () => (await import('./objective-list.ts')).objectiveList },
  { path: ['objective', 'remove'], load: async () => (await import('./objective-remove.ts')).objectiveRemove },
  { path: ['workspace', 'list'], load: async () => (await import('./workspace-list.ts')).workspaceList },
  { path: ['workspace', 'show'], load: async () => (await import('./workspace-show.ts')).workspaceShow },
  { path: ['doctor'], load: async () => (await import('./doctor.ts')).doctorCommand },
  { path: ['import'], load: async () => (await import('./import.ts')).importCommand },
];
