import { type Command, jsonFlag, text, UsageFault } from '../command.ts';
import { controlRequest } from '../io/control-client.ts';
import { print } from '../io/output.ts';
import { showExplanation } from '../io/show-explanation.ts';

export const explainCommand: Command = {
  path: ['explain'],
  help: 'whether a call is allowed, by which rule, from which claims',
  flags: {
    session: { type: 'string', value: 'ID', help: 'which session' },
    tool: { type: 'string', value: 'T', help: 'which tool, as server__tool' },
    args: { type: 'string', value: 'JSON', help: 'its arguments; {} unless said' },
    json: jsonFlag,
  },
  async run(invocation) {
    const [reference, tool] = [text(invocation, 'session'), text(invocation, 'tool')];
    if (reference === undefined) throw new UsageFault('--session ID is missing');
    if (tool === undefined) throw new UsageFault('--tool T is missing');
    const explained = await controlRequest(invocation, 'POST /api/v1/sessions/{id}/explain', {
      id: reference,
      body: { tool, args: text(invocation, 'args') },
    });
    print(invocation, explained, () => showExplanation(explained));
    return 0;
  },
};
