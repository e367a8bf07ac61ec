import { type Feature, featureNames, type Outcome } from './features.ts';

export type Column = ReadonlyMap<Feature, Outcome> | string;

const width = 100;

/**
 * Features down, clients across, grouped by upstream; a dash carries a letter that names its reason below. A column
 * that is only a sentence had no connection at all, for that reason.
 */
export function grid(title: string, groups: ReadonlyMap<string, ReadonlyMap<string, Column>>): string {
  const reasons: string[] = [];
  const letter = (reason: string) => {
    if (!reasons.includes(reason)) reasons.push(reason);
    return String.fromCharCode(97 + reasons.indexOf(reason));
  };
  const columns = [...groups].flatMap(([, group]) => [...group.values()]);
  const names = [...groups].flatMap(([, group]) => [...group.keys()]);
  const label = Math.max(...featureNames.map(({ length }) => length)) + 1;
  const cell = Math.max(3, ...names.map(({ length }) => length));
  const gap = ' ';
  const row = (first: string, cells: readonly string[]) => {
    let at = 0;
    const parts = [...groups.values()].map(({ size }) => {
      const part = cells.slice(at, at + size).map((text) => text.padEnd(cell));
      at += size;
      return part.join('');
    });
    return (first.padEnd(label) + parts.join(gap)).trimEnd();
  };
  const heads = [...groups].map(([name, { size }]) => name.padEnd(size * cell)).join(gap);
  const body = featureNames.map((feature) =>
    row(
      feature,
      columns.map((column) => {
        if (typeof column === 'string') return `–${letter(column)}`;
        const outcome = column.get(feature) ?? { mark: '✗', reason: 'not tried' };
        return outcome.mark === '–' ? `–${letter(outcome.reason)}` : outcome.mark;
      }),
    ),
  );
  const legend = reasons.map((reason) => `  ${letter(reason)} ${reason}`);
  const lines = [title, (' '.repeat(label) + heads).trimEnd(), row('', names), ...body, ...legend];
  return lines.map((line) => (line.length > width ? `${line.slice(0, width - 1)}…` : line)).join('\n');
}
