import type { AnswerOf } from '../../entrances/control/routes.ts';
import { type Command, jsonFlag, readFlag, requireFlag } from '../command.ts';
import { paintState, paintText } from '../io/colour.ts';
import { controlRequest } from '../io/control-request.ts';
import { defaultColumns, printData, renderTable, shortenEnd, wrapText } from '../io/output.ts';

const maxWidths = { claim: 26, value: 24, rule: 26 };

export const explainCommand: Command = {
  help: 'Explain whether a session may call a tool, and why',
  flags: {
    session: { type: 'string', value: 'ID', help: 'Session ID or name' },
    tool: { type: 'string', value: 'TOOL', help: 'Tool, named server__tool' },
    args: { type: 'string', value: 'JSON', help: 'Arguments of the call; default: {}' },
    json: jsonFlag,
  },
  async run(invocation) {
    const explained = await controlRequest(invocation, 'POST /api/v1/sessions/{id}/explain', {
      id: requireFlag(invocation, 'session', 'ID'),
      body: { tool: requireFlag(invocation, 'tool', 'TOOL'), args: readFlag(invocation, 'args') },
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
    wrapText(words, defaultColumns - 9).map(
      (line, i) =>
        `${paintText('bold', (i === 0 ? name : '').padEnd(9))}${name === 'allowed' ? paintState(line) : line}`,
    ),
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
