// The results as one SVG: two bar charts over the same rows, readable on light and dark.
const LABELS = 178;
const CHART = 290;
const VALUE = 92;
const ROW = 34;
const TOP = 104;
const WIDTH = LABELS + 2 * (CHART + VALUE) + 24;

const style = `
  .page { fill: #ffffff } .ink { fill: #1f2328 } .soft { fill: #59636e } .rule { stroke: #d1d9e0 }
  .limit { fill: #8c959f } .ambit { fill: #0969da } .peer { fill: #d4a72c } .goal { stroke: #cf222e }
  .goal-text { fill: #cf222e }
  text { font-family: ui-sans-serif, system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; font-size: 14px }
  .value { paint-order: stroke; stroke: #ffffff; stroke-width: 5px; stroke-linejoin: round }
  .title { font-size: 18px; font-weight: 600 } .head { font-weight: 600 } .small { font-size: 12px }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117 } .ink { fill: #f0f6fc } .soft { fill: #9198a1 } .rule { stroke: #3d444d }
    .limit { fill: #656c76 } .ambit { fill: #4493f8 } .peer { fill: #9e6a03 } .goal { stroke: #f85149 }
    .goal-text { fill: #f85149 } .value { stroke: #0d1117 }
  }`;

export function plotOf(results, { subtitle }) {
  const floor = results.find(({ name }) => name === 'floor')?.figures;
  const added = {
    x: places.left,
    title: 'Added latency, 1 session',
    hint: 'p50 in ms over direct stdio; shorter is better',
    measure: ({ name, figures }) => (name === 'direct' ? undefined : figures[1]?.addedMs),
    text: (value) => `${value.toFixed(value < 1 ? 3 : 2)} ms`,
    goal: scaled(floor?.[1]?.addedMs, 1.6),
    goalText: '1.6 × floor',
  };
  const calls = {
    x: places.right,
    title: 'Calls per second, 16 sessions',
    hint: 'longer is better',
    measure: ({ figures }) => figures[16]?.callsPerSecond,
    text: (value) => Math.round(value).toLocaleString('en'),
    goal: scaled(floor?.[16]?.callsPerSecond, 0.75),
    goalText: '75 % of floor',
  };
  return drawn({
    title: 'Tool calls through each gateway',
    heading: 'Tool calls over HTTP to a trivial stdio server',
    subtitle,
    description: description(results),
    rows: results,
    charts: [added, calls],
  });
}

// Where the two charts of a page stand.
export const places = { left: LABELS, right: LABELS + CHART + VALUE + 12 };

export function drawn({ title, heading, subtitle, description: told, rows, charts }) {
  const height = TOP + rows.length * ROW + 44;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img" aria-labelledby="title desc">
<title id="title">${escapeXml(title)}</title>
<desc id="desc">${escapeXml(told)}</desc>
<style>${style}
</style>
<rect class="page" width="${WIDTH}" height="${height}" rx="8"/>
<text class="ink title" x="20" y="34">${escapeXml(heading)}</text>
<text class="soft small" x="20" y="54">${escapeXml(subtitle)}</text>
${rows.map(({ label }, row) => `<text class="ink" x="20" y="${rowY(row) + 16}">${escapeXml(label)}</text>`).join('\n')}
${charts.map((each) => chart(each, rows)).join('\n')}
</svg>
`;
}

function chart({ x, title, hint, measure, text, goal, goalText }, results) {
  const values = results.map(measure);
  const most = Math.max(goal ?? 0, ...values.filter((value) => value !== undefined), Number.MIN_VALUE);
  const width = (value) => Math.max(1, (Math.max(0, value) / most) * CHART);
  const bottom = rowY(results.length) - 4;
  const numbers = []; // drawn last, so that the goal line never runs through them
  const parts = [
    `<text class="ink head" x="${x}" y="82">${title}</text>`,
    `<text class="soft small" x="${x}" y="98">${hint}</text>`,
    `<line class="rule" x1="${x}" y1="${TOP + 4}" x2="${x}" y2="${bottom}"/>`,
  ];
  for (const [row, value] of values.entries()) {
    const y = rowY(row);
    if (value === undefined) {
      parts.push(`<text class="soft small" x="${x + 8}" y="${y + 15}">–</text>`);
      continue;
    }
    const bar = width(value).toFixed(1);
    parts.push(`<rect class="${kind(results[row])}" x="${x}" y="${y}" width="${bar}" height="22" rx="2"/>`);
    numbers.push(`<text class="ink small value" x="${x + Number(bar) + 8}" y="${y + 15}">${text(value)}</text>`);
  }
  if (goal !== undefined) {
    const at = (x + width(goal)).toFixed(1);
    parts.push(
      `<line class="goal" x1="${at}" y1="${TOP + 4}" x2="${at}" y2="${bottom + 4}" stroke-dasharray="4 3"/>`,
      `<text class="goal-text small" x="${at}" y="${bottom + 20}" text-anchor="middle">${goalText}</text>`,
    );
  }
  return [...parts, ...numbers].join('\n');
}

function rowY(row) {
  return TOP + 12 + row * ROW;
}

function kind({ name, peer }) {
  if (peer) return 'peer';
  return name.startsWith('ambit') ? 'ambit' : 'limit';
}

function scaled(value, factor) {
  return value === undefined ? undefined : value * factor;
}

function description(results) {
  return results
    .map(({ label, figures }) => {
      const one = figures[1]?.p50Ms.toFixed(3) ?? '–';
      return `${label}: p50 ${one} ms at 1 session, ${figures[16]?.callsPerSecond.toFixed(0) ?? '–'} calls/s at 16.`;
    })
    .join(' ');
}

function escapeXml(text) {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
