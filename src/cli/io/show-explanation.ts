import type { AnswerOf } from '../../entrances/control/routes.ts';
import { columns, cut, table, wrap } from './output.ts';

const widest = { claim: 26, value: 24, rule: 26 };

/** The answer first, then what it was decided from, then each rule that names the tool. */
export function showExplanation(explained: AnswerOf<'POST /api/v1/sessions/{id}/explain'>): string {
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
