export type Outcome =
  | { readonly mark: '✓' }
  | { readonly mark: '–'; readonly reason: string }
  | { readonly mark: '✗'; readonly reason: string };

export type Column = ReadonlyMap<string, Outcome> | string;

const width = 100;

/**
 * Features down, clients across, grouped by upstream; a dash carries a letter that names its reason below. A column
 * that is only a sentence had no connection at all, for that reason. A dot was not tried.
 */
export function printGrid(
  title: string,
  features: readonly string[],
  groups: ReadonlyMap<string, ReadonlyMap<string, Column>>,
): string {
  const reasons: string[] = [];
  const letter = (reason: string) => {
    if (!reasons.includes(reason)) reasons.push(reason);
    return String.fromCharCode(97 + reasons.indexOf(reason));
  };
  const columns = [...groups].flatMap(([, group]) => [...group.values()]);
  const names = [...groups].flatMap(([, group]) => [...group.keys()]);
  const label = Math.max(...features.map(({ length }) => length)) + 1;
  const cell = Math.max(...names.map(({ length }) => length)) + 1;
  const gap = ' ';
  const widths = [...groups].map(([name, { size }]) => Math.max(name.length, size * cell));
  const row = (first: string, cells: readonly string[]) => {
    let at = 0;
    const parts = [...groups.values()].map(({ size }, index) => {
      const part = cells.slice(at, at + size).map((text) => text.padEnd(cell));
      at += size;
      return part.join('').padEnd(widths[index]!);
    });
    return (first.padEnd(label) + parts.join(gap)).trimEnd();
  };
  const heads = [...groups.keys()].map((name, index) => name.padEnd(widths[index]!)).join(gap);
  const body = features.map((feature) =>
    row(
      feature,
      columns.map((column) => {
        if (typeof column === 'string') return `–${letter(column)}`;
        const outcome = column.get(feature);
        return outcome?.mark === '–' ? `–${letter(outcome.reason)}` : (outcome?.mark ?? '·');
      }),
    ),
  );
  const legend = reasons.map((reason) => `  ${letter(reason)} ${reason}`);
  const lines = [...title.split('\n'), (' '.repeat(label) + heads).trimEnd(), row('', names), ...body, ...legend];
  return lines.map((line) => (line.length > width ? `${line.slice(0, width - 1)}…` : line)).join('\n');
}
