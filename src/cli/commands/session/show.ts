import { type Command, jsonFlag, onlyWord } from '../../command.ts';
import { controlRequest } from '../../io/control-client.ts';
import { print } from '../../io/output.ts';
import { showCalls } from '../../io/show-calls.ts';
import { showOne } from './show-session.ts';

/** How many of its calls are shown beside it. */
const latest = 5;

export const sessionShow: Command = {
  path: ['session', 'show'],
  operands: 'ID',
  help: 'one session, by id, name or unique prefix',
  flags: { json: jsonFlag },
  async run(invocation) {
    const view = await controlRequest(invocation, 'GET /api/v1/sessions/{id}', { id: onlyWord(invocation, 'ID') });
    const forPeople = invocation.flags.json !== true;
    const page = { id: view.id, query: { limit: latest } };
    const calls = forPeople ? (await controlRequest(invocation, 'GET /api/v1/sessions/{id}/calls', page)).calls : [];
    print(invocation, view, () => [showOne(view), ...(calls.length === 0 ? [] : ['', showCalls(calls)])].join('\n'));
    return 0;
  },
};
