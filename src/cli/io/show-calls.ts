import type { AnswerOf } from '../../entrances/control/routes.ts';
import { fromNow } from '../commands/session/show-session.ts';
import { table } from './output.ts';

type Call = AnswerOf<'GET /api/v1/sessions/{id}/calls'>['calls'][number];
type ShownCall = Pick<Call, 'at' | 'server' | 'method' | 'name' | 'outcome' | 'ms'>;

export function showCalls(calls: readonly ShownCall[]): string {
  return table(
    ['CALLED', 'SERVER', 'METHOD', 'NAME', 'OUTCOME', 'MS'],
    calls.map(({ at, server, method, name, outcome, ms }) => [
      fromNow(at),
      server,
      method,
      name ?? '-',
      outcome,
      ms.toFixed(1),
    ]),
    { precious: ['CALLED', 'NAME', 'OUTCOME'] },
  );
}
