import type { RecordedCall } from '../journal/read-calls.ts';
import { cut, table } from './output.ts';

export function showCalls(calls: readonly RecordedCall[]): string {
  return table(
    ['CALLED', 'SERVER', 'METHOD', 'NAME', 'OUTCOME', 'MS'],
    calls.map(({ at, server, method, name, outcome, ms }) => [
      at,
      server,
      cut(method, 24),
      cut(name ?? '-', 32),
      outcome,
      ms.toFixed(1),
    ]),
  );
}
