import { type Command, jsonFlag, readFlag, readListFlag, readSecondsFlag, requirePositional } from '../command.ts';
import { controlRequest } from '../io/control-request.ts';
import { printData } from '../io/output.ts';
import { renderSession } from './session.ts';

export const sessionRestrict: Command = {
  operands: 'ID',
  help: 'narrow a session; ends what no longer fits',
  flags: {
    trust: { type: 'string', value: 'T', help: 'sandboxed' },
    ttl: { type: 'string', value: 'SECONDS', help: 'a shorter idle time' },
    server: { type: 'string', value: 'S', help: 'keep only this server; repeatable', multiple: true },
    permission: { type: 'string', value: 'P', help: 'keep only this permission; repeatable', multiple: true },
    'no-permissions': { type: 'boolean', help: 'keep no permission' },
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
