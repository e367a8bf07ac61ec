// Lookup and refresh as the number of sessions grows, as one SVG.
import { drawn, places } from './plot.js';

export function plotStores(stores, { subtitle }) {
  const rows = stores.flatMap(({ kind, figures }) =>
    figures.map((figure) => ({ name: `ambit-${kind}`, label: `${kind}, ${figure.size.toLocaleString('en')}`, figure })),
  );
  const text = (value) => `${value.toFixed(value < 100 ? 1 : 0)} µs`;
  const hint = 'p50 in µs, one at a time; shorter is better';
  return drawn({
    title: 'Session stores',
    heading: 'A lookup and a refresh in each session store, by the number of sessions',
    subtitle,
    description: rows
      .map(({ label, figure: { lookup, refresh } }) => `${label}: ${text(lookup.p50Us)}, ${text(refresh.p50Us)}.`)
      .join(' '),
    rows,
    charts: [
      { x: places.left, title: 'Lookup', hint, text, measure: ({ figure }) => figure.lookup.p50Us },
      { x: places.right, title: 'Refresh', hint, text, measure: ({ figure }) => figure.refresh.p50Us },
    ],
  });
}
