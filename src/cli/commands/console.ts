import type { AnswerOf } from '../../entrances/control/routes.ts';
import { type Command, jsonFlag, readFlag, requirePositional } from '../command.ts';
import { printLines } from '../io/ask.ts';
import { controlRequest, runningGatewayRequest } from '../io/control-request.ts';
import { openBrowser } from '../io/open-browser.ts';
import { printData, relativeTime, renderTable } from '../io/output.ts';
import { showProgress } from '../io/progress.ts';

const roles = ['admin', 'viewer'] as const;

export const openCommand: Command = {
  help: 'Open the web console of the running gateway in a browser',
  flags: {
    role: {
      type: 'string',
      value: 'ROLE',
      help: 'Role: admin, or viewer, who may only read; default: admin',
      choices: roles,
    },
    print: { type: 'boolean', help: 'Print the link instead of opening it' },
    json: { ...jsonFlag, help: 'Print the link as JSON instead of opening it' },
  },
  async run(invocation) {
    const role = readFlag(invocation, 'role') as (typeof roles)[number] | undefined;
    const link = await runningGatewayRequest(invocation, 'POST /api/v1/consoles/links', { body: { role } });
    const isPrinted = invocation.flags['print'] === true || invocation.flags['json'] === true;
    if (!isPrinted) {
      const isOpened = async () => {
        const { consoles } = await runningGatewayRequest(invocation, 'GET /api/v1/consoles');
        return consoles.some(({ id }) => id === link.consoleId);
      };
      // Another program may have had the plain address before, and may have left a page there.
      const opening = openBrowser(link.browserUrl ?? link.url, invocation.env, isOpened);
      const outcome = await showProgress('Waiting for the browser', opening);
      if (outcome === 'opened') {
        printLines([`The console is open in the browser, as ${link.role}.`]);
        return 0;
      }
      printLines([outcome === 'unused' ? 'The browser has not signed in.' : 'No browser could be opened here.']);
    }
    printLines([`This link signs in once, as ${link.role}, within 60 seconds:`]);
    printData(invocation, link, () => link.url);
    return 0;
  },
};

export const consoleList: Command = {
  help: 'List the signed-in web consoles',
  flags: { json: jsonFlag },
  async run(invocation) {
    const listed = await controlRequest(invocation, 'GET /api/v1/consoles');
    printData(invocation, listed, () =>
      listed.consoles.length === 0 ? 'No console is signed in. Open one with "ambit open".' : renderConsoles(listed),
    );
    return 0;
  },
};

export const consoleRevoke: Command = {
  help: 'Sign a web console out, and the consoles that it made',
  operands: 'ID',
  flags: { json: jsonFlag },
  async run(invocation) {
    const id = requirePositional(invocation, 'ID');
    const revoked = await controlRequest(invocation, 'DELETE /api/v1/consoles/{id}', { id });
    printData(invocation, revoked, () => `Signed out the console ${revoked.id.slice(0, 8)}.`);
    return 0;
  },
};

function renderConsoles({ consoles }: AnswerOf<'GET /api/v1/consoles'>): string {
  const rows = consoles.map(({ id, role, by, address, createdAt, lastUsedAt, expiresAt }) => [
    id.slice(0, 8),
    role,
    by,
    address ?? '',
    relativeTime(createdAt),
    relativeTime(lastUsedAt),
    relativeTime(expiresAt),
  ]);
  return renderTable(['ID', 'ROLE', 'BY', 'ADDRESS', 'SIGNED IN', 'USED', 'EXPIRES'], rows);
}
