// The results as text, at most 100 columns wide.
const columns = [
  ['subject', 18, ({ label }) => label],
  ['sessions', 8, (_, sessions) => sessions],
  ['calls/s', 7, (_, __, figure) => figure.callsPerSecond.toFixed(0)],
  ['p50 ms', 6, (_, __, figure) => figure.p50Ms.toFixed(3)],
  ['p99 ms', 6, (_, __, figure) => figure.p99Ms.toFixed(2)],
  ['added ms', 8, ({ name }, _, { addedMs }) => (name === 'direct' ? '–' : show(addedMs, 3))],
  ['added/floor', 11, ({ name }, _, { addedVsFloor }) => (name === 'direct' ? '–' : show(addedVsFloor, 2, ' ×'))],
  ['calls/floor', 11, (_, __, { callsVsFloor }) => show(callsVsFloor, 2, ' ×')],
  ['load CPU', 8, (_, __, figure) => `${(figure.loadCpuShare * 100).toFixed(0)} %`],
];

export function tableOf(results, sessionCounts) {
  const lines = [row(columns.map(([title]) => title)), row(columns.map(([, width]) => '─'.repeat(width)))];
  for (const sessions of sessionCounts) {
    for (const result of results) {
      const figure = result.figures[sessions];
      if (figure) lines.push(row(columns.map(([, , cell]) => cell(result, sessions, figure))));
    }
    lines.push('');
  }
  lines.push('Added: p50 less the p50 of direct stdio. Load CPU: what the load generator took of one core.');
  for (const { label, note } of results) lines.push(`${label.padEnd(18)}  ${note}`);
  return lines.join('\n');
}

export function targetsOf(targets) {
  return targets
    .map(({ era, what, goal, value, reached, rounds }) => {
      const verdict = reached === undefined ? 'not measured' : reached ? 'reached' : 'not reached';
      const each = value !== undefined && rounds.length > 1 ? rounds.map((round) => show(round, 2)).join(' ') : '';
      const cells = [era.padEnd(17), what.padEnd(37), goal.padEnd(8), show(value, 2, ' ×').padStart(7)];
      return [...cells, verdict.padEnd(12), each].join('  ').trimEnd();
    })
    .join('\n');
}

function row(cells) {
  return cells
    .map((cell, index) => (index === 0 ? String(cell).padEnd(18) : String(cell).padStart(columns[index][1])))
    .join('  ');
}

function show(value, digits, unit = '') {
  return value === undefined ? '–' : value.toFixed(digits) + unit;
}
