import {
  type Command,
  jsonFlag,
  readFlag,
  readListFlag,
  readSecondsFlag,
  requirePositional,
  trustFlag,
} from '../command.ts';
import { controlRequest } from '../io/control-request.ts';
import { printData } from '../io/output.ts';
import { renderSession } from './session.ts';

export const sessionRestrict: Command = {
  operands: 'ID',
  help: 'Reduce the rights of a session; this cannot be undone',
  flags: {
    trust: { ...trustFlag, help: 'Lower trust level: sandboxed' },
    ttl: { type: 'string', value: 'SECONDS', help: 'Shorter time to live; the session ends when idle this long' },
    server: { type: 'string', value: 'NAME', help: 'Keep only this server', multiple: true },
    permission: { type: 'string', value: 'PERMISSION', help: 'Keep only this permission', multiple: true },
    'no-permissions': { type: 'boolean', help: 'Remove all permissions' },
    json: jsonFlag,
  },
  async run(invocation) {
    const view = await controlRequest(invocation, 'PATCH /api/v1/sessions/{id}', {
      id: requirePositional(invocation, 'ID'),
      body: {
        trustLevel: readFlag(invocation, 'trust'),
        ttlSeconds: readSecondsFlag(invocation, 'ttl'),
        servers: readListFlag(invocation, 'server'),
        permissions: invocation.flags['no-permissions'] === true ? [] : readListFlag(invocation, 'permission'),
      },
    });
    printData(invocation, view, () => renderSession(view));
  },
};
