/**
 * What a page shows in place of a value that is another each time. Everything else is compared letter by letter.
 *
 * | on the page | stands for |
 * |---|---|
 * | `…` | anything in this line; as a line of its own, any lines |
 * | an id of 8 or 32 hexadecimal digits | another one |
 * | a duration such as `2s`, `60m`, `0.13 s` | another one |
 * | a date, with or without a time | another one |
 * | `/home/ada` | the home folder |
 * | `127.0.0.1:7420` and other addresses of a gateway | the address it got |
 * | two or more blanks | one or more blanks: columns are as wide as their widest value |
 */
const placeholders: readonly (readonly [shown: RegExp, pattern: string])[] = [
  [/…/, '.*'],
  [/\b[0-9a-f]{32}\b/, '[0-9a-f]{32}'],
  [/\b[0-9a-f]{8}\b/, '[0-9a-f]{8}'],
  [/\b\d+(?:\.\d+)? ?(?:ms|s|m|h|d)\b/, '\\d+(?:\\.\\d+)? ?(?:ms|s|m|h|d)'],
  [/\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d[\d:.]*)?/, '\\d{4}-\\d\\d-\\d\\d(?:[T ]\\d\\d:\\d\\d[\\d:.]*)?'],
  [/ {2,}/, ' +'],
];
const anyPlaceholder = new RegExp(placeholders.map(([shown]) => `(${shown.source})`).join('|'), 'g');

/** Names on the page, such as `127.0.0.1:7420`, each with the one that stands for it in this run. */
export type PageNames = ReadonlyMap<string, string>;

const escapeText = (text: string) => text.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&');

export function useNames(text: string, names: PageNames): string {
  return [...names].reduce((all, [shown, used]) => all.replaceAll(shown, used), text);
}

/** Whether the output is what the page shows. The rows of a table may come in another order. */
export function matchesOutput(printed: string, shown: string, names: PageNames): boolean {
  if (buildOutputPattern(shown, names).test(printed)) return true;
  const [header = '', ...rows] = printed.split('\n').slice(0, -1);
  if (!/^[A-Z]+(?: {2,}[A-Z]+)+$/.test(header)) return false;
  const [shownHeader, ...shownRows] = tidyOutput(shown).split('\n').slice(0, -1);
  const findRow = (row: string) => rows.findIndex((each) => buildOutputPattern(row, names).test(`${each}\n`));
  const found = shownRows.map(findRow);
  return shownHeader === header && rows.length === found.length && new Set([...found, -1]).size === found.length + 1;
}

export function buildOutputPattern(shown: string, names: PageNames): RegExp {
  const lines = tidyOutput(useNames(shown, names)).trimEnd().split('\n');
  const patterns = lines.map((line) => {
    if (line.trim() === '…') return '(?:.*\n)*';
    let [pattern, from] = ['', 0];
    for (const match of line.trimEnd().matchAll(anyPlaceholder)) {
      pattern += escapeText(line.slice(from, match.index));
      pattern += placeholders[match.slice(1).findIndex((group) => group !== undefined)]?.[1];
      from = match.index + match[0].length;
    }
    return `${pattern}${escapeText(line.trimEnd().slice(from))}\n`;
  });
  return new RegExp(`^${patterns.join('')}$`);
}

/**
 * Lines end without blanks and the text ends with one line end. The line by which a command says which gateway or store it
 * uses is left out: every command may print it, and a page shows it once at most.
 */
export function tidyOutput(text: string): string {
  const lines = text.split('\n').map((line) => line.trimEnd());
  const told = lines.filter((line) => !/^ambit: (?:no gateway is running[^;]*; )?using the \w+ /.test(line));
  return `${told.join('\n').trimEnd()}\n`;
}
