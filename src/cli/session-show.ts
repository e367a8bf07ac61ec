import type { CallsPage } from '../journal/read-calls.ts';
import type { SessionView } from '../sessions/session.ts';
import { type Command, jsonFlag, onlyWord } from './command.ts';
import { askGateway } from './control-client.ts';
import { print } from './output.ts';
import { showCalls } from './show-calls.ts';
import { showOne } from './show-session.ts';

/** How many of its calls are shown beside it. */
const latest = 5;

export const sessionShow: Command = {
  path: ['session', 'show'],
  operands: 'ID',
  help: 'one session, by id, name or unique prefix',
  flags: { json: jsonFlag },
  async run(invocation) {
    const reference = encodeURIComponent(onlyWord(invocation, 'ID'));
    const view = await askGateway<SessionView>(invocation, 'GET', `/api/v1/sessions/${reference}`);
    const forPeople = invocation.flags.json !== true;
    const path = `/api/v1/sessions/${view.id}/calls?limit=${latest}`;
    const calls = forPeople ? (await askGateway<CallsPage>(invocation, 'GET', path)).calls : [];
    print(invocation, view, () => [showOne(view), ...(calls.length === 0 ? [] : ['', showCalls(calls)])].join('\n'));
    return 0;
  },
};
