import type { ScenarioOutcome } from './run-conformance.ts';

const WIDTH = 100;
const GAP = '  ';

/** An aligned table, scenarios × columns, with the totals of the scored scenarios below. */
export function writeConformanceTable(columns: Record<string, ScenarioOutcome[]>): string {
  const outcomes = Object.values(columns);
  const row = (listed: ScenarioOutcome) => [
    listed.scenario,
    ...outcomes.map((column) => cell(column.find(({ scenario }) => scenario === listed.scenario))),
  ];
  const headings = stacked(Object.keys(columns));
  const scored = scenarios(outcomes, true).map(row);
  const unscored = scenarios(outcomes, false).map(row);
  const totals = ['scored scenarios passed', ...outcomes.map(total)];

  const rows = [...headings, ...scored, ...unscored, totals];
  const widths = totals.map((_, index) => Math.max(...rows.map((cells) => cells[index]!.length)));
  const others = widths.slice(1).reduce((sum, width) => sum + GAP.length + width, 0);
  widths[0] = Math.min(widths[0]!, WIDTH - others);
  const line = (cells: string[]) => {
    const padded = cells.map((text, index) => toWidth(text, widths[index]!));
    return padded.join(GAP).trimEnd();
  };

  const rule = '─'.repeat(widths[0] + others);
  const below = unscored.length === 0 ? [] : [rule, 'not scored:', ...unscored.map(line)];
  return [...headings.map(line), rule, ...scored.map(line), ...below, rule, line(totals)].join('\n');
}

// One word to a line: long column names would leave no room for the scenarios'.
function stacked(names: string[]): string[][] {
  const words = names.map((name) => name.split(' '));
  const height = Math.max(1, ...words.map(({ length }) => length));
  return Array.from({ length: height }, (_, index) => [
    index === height - 1 ? 'scenario' : '',
    ...words.map((column) => column[index] ?? ''),
  ]);
}

function scenarios(outcomes: ScenarioOutcome[][], scored: boolean): ScenarioOutcome[] {
  const rows = new Map<string, ScenarioOutcome>();
  // A scenario that one column scores belongs above, whatever the other columns do with it.
  for (const outcome of outcomes.flat()) {
    if (!rows.get(outcome.scenario)?.scored) rows.set(outcome.scenario, outcome);
  }
  return [...rows.values()].filter((outcome) => outcome.scored === scored);
}

function cell(outcome: ScenarioOutcome | undefined): string {
  if (outcome === undefined) return '';
  const { passed, failed, warned, ok } = outcome;
  if (passed + failed + warned === 0) return '–';
  return `${ok ? '✓' : '✗'} ${passed}/${passed + failed}${warned > 0 ? ` warn ${warned}` : ''}`;
}

function total(column: ScenarioOutcome[]): string {
  const scored = column.filter((outcome) => outcome.scored);
  return `${scored.filter((outcome) => outcome.ok).length}/${scored.length}`;
}

function toWidth(text: string, width: number): string {
  return text.length > width ? `${text.slice(0, width - 1)}…` : text.padEnd(width);
}
