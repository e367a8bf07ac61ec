import type { AnswerOf } from '../../entrances/control/routes.ts';
import { formatCount } from '../../lib/text/format-count.ts';
import {
  type Command,
  durationForms,
  type Invocation,
  jsonFlag,
  readDurationFlag,
  readFlag,
  readListFlag,
  requireFlag,
  requirePositional,
  trustFlag,
  UsageError,
} from '../command.ts';
import { controlRequest } from '../io/control-request.ts';
import { printData, relativeTime, renderTable } from '../io/output.ts';

export const userAdd: Command = {
  help: 'Add a user, or add a user to more teams',
  operands: 'NAME',
  flags: { team: { type: 'string', value: 'NAME', help: 'Team to add the user to', multiple: true }, json: jsonFlag },
  async run(invocation) {
    const name = requirePositional(invocation, 'NAME');
    const view = await controlRequest(invocation, 'POST /api/v1/users', {
      body: { name, teams: readListFlag(invocation, 'team') },
    });
    printData(invocation, view, () =>
      view.teams.length === 0 ? `User ${view.name}` : `User ${view.name}, in ${view.teams.join(', ')}`,
    );
  },
};

export const userList: Command = {
  help: 'List users',
  flags: { json: jsonFlag },
  async run(invocation) {
    const listed = await controlRequest(invocation, 'GET /api/v1/users');
    printData(invocation, listed, () =>
      listed.users.length === 0 ? 'No users. Add one with "ambit user add NAME".' : renderUsers(listed),
    );
  },
};

export const userRemove: Command = {
  help: 'Remove a user with all keys, or only from teams',
  operands: 'NAME',
  flags: {
    team: { type: 'string', value: 'NAME', help: 'Only remove the user from this team', multiple: true },
    json: jsonFlag,
  },
  async run(invocation) {
    const name = requirePositional(invocation, 'NAME');
    const leftTeams = readListFlag(invocation, 'team');
    if (leftTeams === undefined) {
      const removed = await controlRequest(invocation, 'DELETE /api/v1/users/{id}', { id: name });
      const { keys, sessions } = removed;
      printData(
        invocation,
        removed,
        () => `Removed ${name}: ${formatCount(keys, 'key')} revoked, ${formatCount(sessions, 'session')} ended.`,
      );
      return 0;
    }
    const { teams } = await controlRequest(invocation, 'GET /api/v1/users/{id}', { id: name });
    const view = await controlRequest(invocation, 'PATCH /api/v1/users/{id}', {
      id: name,
      body: { teams: teams.filter((team) => !leftTeams.includes(team)) },
    });
    printData(
      invocation,
      view,
      () => `${name} is now in ${view.teams.length === 0 ? 'no team' : view.teams.join(', ')}.`,
    );
    return 0;
  },
};

function renderUsers({ users }: AnswerOf<'GET /api/v1/users'>): string {
  const rows = users.map(({ name, teams, declared, createdAt }) => [
    name,
    teams.length === 0 ? '-' : teams.join(', '),
    declared ? 'in the configuration' : `added ${createdAt?.slice(0, 10)}`,
  ]);
  return renderTable(['NAME', 'TEAMS', 'NOTE'], rows, { keepWidth: ['NAME', 'NOTE'] });
}

function renderTeams({ teams }: AnswerOf<'GET /api/v1/teams'>): string {
  const rows = teams.map(({ name, declared, members }) => [
    name,
    members.length === 0 ? '-' : members.join(', '),
    declared ? 'in the configuration' : '',
  ]);
  return renderTable(['TEAM', 'MEMBERS', 'NOTE'], rows, { keepWidth: ['TEAM', 'NOTE'] });
}

export const teamList: Command = {
  help: 'List teams and their members',
  flags: { json: jsonFlag },
  async run(invocation) {
    const listed = await controlRequest(invocation, 'GET /api/v1/teams');
    printData(invocation, listed, () =>
      listed.teams.length === 0
        ? 'No teams. Add a user to one with "ambit user add NAME --team TEAM".'
        : renderTeams(listed),
    );
  },
};

export const keyCreate: Command = {
  help: 'Create an API key for a user; it is shown only once',
  flags: {
    user: { type: 'string', value: 'NAME', help: 'User the key belongs to' },
    expires: { type: 'string', value: 'TIME', help: 'Expiry: a time such as 12h or 30d, or a date; default: never' },
    trust: { ...trustFlag, help: 'Highest trust level of its sessions; default: direct' },
    workspace: { type: 'string', value: 'NAME', help: 'Allow only this workspace', multiple: true },
    scope: { type: 'string', value: 'PERMISSION', help: 'Grant its sessions this permission', multiple: true },
    json: jsonFlag,
  },
  async run(invocation) {
    const { id, key } = await controlRequest(invocation, 'POST /api/v1/keys', {
      body: {
        userId: requireFlag(invocation, 'user', 'NAME'),
        trustLevel: readFlag(invocation, 'trust'),
        workspaces: readListFlag(invocation, 'workspace'),
        scopes: readListFlag(invocation, 'scope'),
        lifeSeconds: readExpiryFlag(invocation, 'expires'),
      },
    });
    printKey(id, key);
  },
};

export const keyList: Command = {
  help: 'List keys (secrets are never shown)',
  flags: { user: { type: 'string', value: 'NAME', help: 'Only keys of this user' }, json: jsonFlag },
  async run(invocation) {
    const query = { user: readFlag(invocation, 'user') };
    const listed = await controlRequest(invocation, 'GET /api/v1/keys', { query });
    printData(invocation, listed, () =>
      listed.keys.length === 0 ? 'No keys. Create one with "ambit key create --user NAME".' : renderKeys(listed),
    );
  },
};

export const keyRevoke: Command = {
  help: 'Revoke a key and end its sessions',
  operands: 'ID',
  flags: { json: jsonFlag },
  async run(invocation) {
    const id = requirePositional(invocation, 'ID');
    const view = await controlRequest(invocation, 'DELETE /api/v1/keys/{id}', { id });
    const render = () =>
      `Revoked key ${view.id.slice(0, 8)} of ${view.userId}; ${formatCount(view.sessions, 'session')} ended.`;
    printData(invocation, view, render);
  },
};

export const keyRotate: Command = {
  help: 'Replace the secret of a key; it is shown only once',
  operands: 'ID',
  flags: {
    overlap: { type: 'string', value: 'TIME', help: 'How long the old secret still works, such as 24h' },
    json: jsonFlag,
  },
  async run(invocation) {
    const { id, key } = await controlRequest(invocation, 'POST /api/v1/keys/{id}/rotate', {
      id: requirePositional(invocation, 'ID'),
      body: { overlapSeconds: readDurationFlag(invocation, 'overlap') },
    });
    printKey(id, key);
  },
};

const expiryForms = `${durationForms}, or a date such as ${new Date().getUTCFullYear() + 1}-01-31`;

/** Reads a flag that takes a time, or a date such as "2027-01-31", which is the last day. */
function readExpiryFlag(invocation: Invocation, name: string): number | undefined {
  const value = readFlag(invocation, name);
  if (value === undefined || !/^\d{4}-\d\d-\d\d$/.test(value)) return readDurationFlag(invocation, name, expiryForms);
  const end = Date.parse(`${value}T23:59:59Z`);
  const left = Math.ceil((end - Date.now()) / 1000);
  if (!(left > 0)) throw new UsageError(`--${name}: "${value}" is not a date in the future`, `Use ${expiryForms}.`);
  return left;
}

function renderKeys({ keys }: AnswerOf<'GET /api/v1/keys'>): string {
  const rows = keys.map(({ id, userId, state, trustLevel, workspaces, lastUsedAt, expiresAt }) => [
    id.slice(0, 8),
    userId,
    state,
    trustLevel,
    workspaces === null ? 'all' : workspaces.join(', '),
    lastUsedAt === null ? 'never' : relativeTime(lastUsedAt),
    expiresAt === null ? 'never' : relativeTime(expiresAt),
  ]);
  return renderTable(['ID', 'USER', 'STATE', 'TRUST', 'WORKSPACES', 'USED', 'EXPIRES'], rows, {
    states: ['STATE', 'TRUST'],
  });
}

/** Prints JSON with and without `--json`: a key is passed on to another program. */
function printKey(id: string, key: string): void {
  process.stdout.write(`${JSON.stringify({ id, key })}\n`);
}
