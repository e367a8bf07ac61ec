import { expect, test } from 'vitest';
import { createRefusalRecord, type RefusalLine } from '../../../src/sandbox/egress/refusal-record.ts';

test('every refusal is in the journal, and a flood of them in few lines', () => {
  let time = 5000;
  const lines: RefusalLine[] = [];
  const record = createRefusalRecord(
    (line) => lines.push(line),
    () => time,
  );
  const reason = 'not listed';
  for (let i = 0; i < 1000; i++) record.add({ to: 'a.example:443', reason });
  expect(lines).toEqual([{ to: 'a.example:443', reason }]);
  for (let i = 0; i < 1000; i++) record.add({ to: `${i}.example:443`, reason });
  time += 1000;
  record.add({ to: 'b.example:1', reason });
  record.flush();
  expect(lines.length).toBeLessThan(30);
  expect(lines).toContainEqual({ to: 'a.example:443', reason, times: 999 });
  expect(lines.at(-1)).toEqual({ to: 'b.example:1', reason });
  expect(lines.reduce((sum, { times = 1 }) => sum + times, 0)).toBe(2001);
  expect(record.count).toBe(2001);
});
