import type { AnswerOf } from '../../entrances/control/routes.ts';
import { type Command, jsonFlag, readFlag, requireFlag } from '../command.ts';
import { controlRequest } from '../io/control-request.ts';
import { defaultColumns, printData, renderTable, shortenEnd, wrapText } from '../io/output.ts';

const maxWidths = { claim: 26, value: 24, rule: 26 };

export const explainCommand: Command = {
  help: 'whether a call is allowed, by which rule, from which claims',
  flags: {
    session: { type: 'string', value: 'ID', help: 'which session' },
    tool: { type: 'string', value: 'T', help: 'which tool, as server__tool' },
    args: { type: 'string', value: 'JSON', help: 'its arguments; {} unless said' },
    json: jsonFlag,
  },
  async run(invocation) {
    const explained = await controlRequest(invocation, 'POST /api/v1/sessions/{id}/explain', {
      id: requireFlag(invocation, 'session', 'ID'),
      body: { tool: requireFlag(invocation, 'tool', 'T'), args: readFlag(invocation, 'args') },
    });
    printData(invocation, explained, () => renderExplanation(explained));
  },
};

/** Renders the answer, then the claims it was decided from, then each rule that names the tool. */
function renderExplanation(explained: AnswerOf<'POST /api/v1/sessions/{id}/explain'>): string {
  const { server, tool, allowed, rule, reason, claims, rules } = explained;
  const answer = [
    ['tool', `${server}__${tool}`],
    ['allowed', allowed ? 'yes' : 'no'],
    ['rule', rule],
    ['because', reason],
  ].flatMap(([name = '', words = '']) =>
    wrapText(words, defaultColumns - 9).map((line, i) => `${(i === 0 ? name : '').padEnd(9)}${line}`),
  );
  const claimRows = claims.map(({ claim, value, source }) => {
    const words = typeof value === 'string' ? value : value.join(', ');
    return [shortenEnd(claim, maxWidths.claim), shortenEnd(words === '' ? '(none)' : words, maxWidths.value), source];
  });
  const ruleRows = rules.flatMap(({ id, effect, outcome, error }) => {
    const lines = wrapText(error === undefined ? outcome : `error: ${error}`, defaultColumns - maxWidths.rule - 10);
    return lines.map((line, i) => (i === 0 ? [shortenEnd(id, maxWidths.rule), effect, line] : ['', '', line]));
  });
  return [
    answer.join('\n'),
    ...(claimRows.length === 0 ? [] : [renderTable(['CLAIM', 'VALUE', 'FROM'], claimRows)]),
    ...(ruleRows.length === 0 ? [] : [renderTable(['RULE', 'EFFECT', 'OUTCOME'], ruleRows)]),
  ].join('\n\n');
}
