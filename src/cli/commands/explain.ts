import type { AnswerOf } from '../../entrances/control/routes.ts';
import { type Command, jsonFlag, text, UsageFault } from '../command.ts';
import { controlRequest } from '../io/control-request.ts';
import { columns, cut, print, table, wrap } from '../io/output.ts';

const widest = { claim: 26, value: 24, rule: 26 };

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

/** The answer first, then what it was decided from, then each rule that names the tool. */
function showExplanation(explained: AnswerOf<'POST /api/v1/sessions/{id}/explain'>): string {
  const { server, tool, allowed, rule, reason, claims, rules } = explained;
  const answer = [
    ['tool', `${server}__${tool}`],
    ['allowed', allowed ? 'yes' : 'no'],
    ['rule', rule],
    ['because', reason],
  ].flatMap(([name = '', words = '']) =>
    wrap(words, columns - 9).map((line, i) => `${(i === 0 ? name : '').padEnd(9)}${line}`),
  );
  const told = claims.map(({ claim, value, source }) => {
    const words = typeof value === 'string' ? value : value.join(', ');
    return [cut(claim, widest.claim), cut(words === '' ? '(none)' : words, widest.value), source];
  });
  const judged = rules.flatMap(({ id, effect, outcome, error }) => {
    const lines = wrap(error === undefined ? outcome : `error: ${error}`, columns - widest.rule - 10);
    return lines.map((line, i) => (i === 0 ? [cut(id, widest.rule), effect, line] : ['', '', line]));
  });
  return [
    answer.join('\n'),
    ...(told.length === 0 ? [] : [table(['CLAIM', 'VALUE', 'FROM'], told)]),
    ...(judged.length === 0 ? [] : [table(['RULE', 'EFFECT', 'OUTCOME'], judged)]),
  ].join('\n\n');
}
