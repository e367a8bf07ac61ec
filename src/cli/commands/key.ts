import type { AnswerOf } from '../../entrances/control/routes.ts';
import {
  type Command,
  type Invocation,
  jsonFlag,
  readFlag,
  readListFlag,
  requireFlag,
  requirePositional,
  UsageError,
} from '../command.ts';
import { controlRequest } from '../io/control-request.ts';
import { printData, relativeTime, renderTable } from '../io/output.ts';

export const keyCreate: Command = {
  help: 'make a key by which a user is known; it is shown only here',
  flags: {
    user: { type: 'string', value: 'U', help: 'whose' },
    expires: { type: 'string', value: 'D', help: 'after a time such as 30d, or with a day' },
    trust: { type: 'string', value: 'T', help: 'the most it may have; direct unless said' },
    workspace: { type: 'string', value: 'W', help: 'only in this workspace; repeatable', multiple: true },
    scope: { type: 'string', value: 'P', help: 'its sessions hold this permission; repeatable', multiple: true },
    json: jsonFlag,
  },
  async run(invocation) {
    const { id, key } = await controlRequest(invocation, 'POST /api/v1/keys', {
      body: {
        userId: requireFlag(invocation, 'user', 'U'),
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
  help: 'the keys there are; never what proves them',
  flags: { user: { type: 'string', value: 'U', help: 'only of this user' }, json: jsonFlag },
  async run(invocation) {
    const query = { user: readFlag(invocation, 'user') };
    const listed = await controlRequest(invocation, 'GET /api/v1/keys', { query });
    printData(invocation, listed, () =>
      listed.keys.length === 0 ? 'No keys. Make one with "ambit key create --user U".' : renderKeys(listed),
    );
  },
};

export const keyRevoke: Command = {
  help: 'make a key worthless for good, and end its sessions',
  operands: 'ID',
  flags: { json: jsonFlag },
  async run(invocation) {
    const id = requirePositional(invocation, 'ID');
    const view = await controlRequest(invocation, 'DELETE /api/v1/keys/{id}', { id });
    const render = () => `Revoked ${view.id.slice(0, 8)} of ${view.userId}; ${view.sessions} sessions ended.`;
    printData(invocation, view, render);
  },
};

const unitSeconds: ReadonlyMap<string, number> = new Map([
  ['s', 1],
  ['m', 60],
  ['h', 3600],
  ['d', 86_400],
  ['w', 604_800],
  ['y', 31_536_000],
]);

export const keyRotate: Command = {
  help: 'another secret for the same key; it is shown only here',
  operands: 'ID',
  flags: {
    overlap: { type: 'string', value: 'D', help: 'the old one works this long, as 24h; else not' },
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

/** Reads a flag that takes a time such as "90s", "12h" or "30d", in seconds; undefined when it was not given. */
function readDurationFlag(invocation: Invocation, name: string): number | undefined {
  const value = readFlag(invocation, name);
  if (value === undefined) return undefined;
  const [, count, unit] = /^([1-9][0-9]{0,8})([smhdwy])$/.exec(value) ?? [];
  const seconds = unit === undefined ? undefined : unitSeconds.get(unit);
  if (seconds === undefined) throw new UsageError(`--${name} takes a time such as "12h" or "30d"`);
  return Number(count) * seconds;
}

/** Reads a flag that takes a time, or a day such as "2027-01-31", at whose end it is over. */
export function readExpiryFlag(invocation: Invocation, name: string): number | undefined {
  const value = readFlag(invocation, name);
  if (value === undefined || !/^\d{4}-\d\d-\d\d$/.test(value)) return readDurationFlag(invocation, name);
  const end = Date.parse(`${value}T23:59:59Z`);
  const left = Math.ceil((end - Date.now()) / 1000);
  if (!(left > 0)) throw new UsageError(`--${name} names a day that is over, or none`);
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
  return renderTable(['ID', 'USER', 'STATE', 'TRUST', 'WORKSPACES', 'USED', 'EXPIRES'], rows);
}

/** Prints JSON with and without `--json`: a key is passed on to another program. */
function printKey(id: string, key: string): void {
  process.stdout.write(`${JSON.stringify({ id, key })}\n`);
}
