import type { SessionRecord } from '../../stores/record.ts';
import { type ContextFacts, shortenId } from './describe-context.ts';

/** A permission that the session has or could need, the tools that need it, and how to change it. */
export interface PermissionUse {
  readonly permission: string;
  readonly held: boolean;
  /** The tools as "server__tool", with the pattern of the configuration. */
  readonly usedBy: readonly string[];
  readonly change: string;
}

/** Lists the permissions of the session, and then the others that the configuration demands for some tool. */
export function listPermissionUses(facts: ContextFacts): PermissionUse[] {
  const { record, config } = facts;
  const uses = new Map<string, string[]>(record.permissions.map((permission) => [permission, []]));
  for (const [server, { tools }] of Object.entries(config.servers)) {
    for (const [pattern, permission] of Object.entries(tools.permissions)) {
      uses.set(permission, [...(uses.get(permission) ?? []), `${server}__${pattern}`]);
    }
  }
  return [...uses].map(([permission, usedBy]) => {
    const held = record.permissions.includes(permission);
    const change = held ? explainRemoval(record, permission) : explainGrant(facts, permission);
    return { permission, held, usedBy, change };
  });
}

/** The most permissions that a command is written out with. */
const maxWrittenOut = 4;

function explainRemoval({ id, permissions }: SessionRecord, permission: string): string {
  const kept = permissions.filter((each) => each !== permission);
  const command = `ambit session restrict ${id}`;
  if (kept.length === 0) return `"${command} --no-permissions" takes it away for good.`;
  if (kept.length > maxWrittenOut)
    return `"${command}" takes it away for good, with --permission for each one to keep.`;
  return `"${command} ${kept.map((each) => `--permission ${each}`).join(' ')}" takes it away for good.`;
}

/** Explains how a new session would get a permission. A session that is open never gains one. */
function explainGrant({ record, config, key, parent }: ContextFacts, permission: string): string {
  const scope = config.auth.jwt.map(({ permissions }) => permissions[permission]).find((each) => each !== undefined);
  if (scope !== undefined && record.origin?.by === 'access-token')
    return `Each request with an access token that has the scope "${scope}" brings it (auth.jwt.permissions).`;
  if (parent !== undefined) {
    const who = `parent session ${shortenId(parent.id)}`;
    return parent.permissions.includes(permission)
      ? `Open a new session below the ${who} with this permission.`
      : `Open a new session without a parent: the ${who} does not have it either.`;
  }
  switch (record.origin?.by) {
    case 'key':
      return key === undefined
        ? 'The system that issued the API key decides the permissions: use a key with this one.'
        : `Create another key with "ambit key create --user ${key.userId} --scope ${permission}": the permissions of a key cannot be changed.`;
    case 'access-token':
      return 'Map a scope of the access token to it in auth.jwt.permissions, or let the operator open the session.';
    case 'anonymous':
      return 'Callers without a credential have no permissions: use an API key that has it as a scope.';
    case 'stdio':
      return `Open the session with "ambit session create --permission ${permission}", and pass it to "ambit stdio --session".`;
    default:
      return `Open a new session with "ambit session create --permission ${permission}".`;
  }
}
