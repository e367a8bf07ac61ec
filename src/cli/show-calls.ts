import type { RecordedCall } from '../journal/read-calls.ts';
import { table } from './output.ts';
import { fromNow } from './show-session.ts';

export function showCalls(calls: readonly RecordedCall[]): string {
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
