import { plural } from './format.ts';
import './sparkline.css';

const [width, height, gap] = [3, 20, 1];

/** Draws counts as small bars, the oldest first. Bars of the same call never get thinner than 3 px. */
export function Sparkline({ values, label }: { readonly values: readonly number[]; readonly label: string }) {
  const most = Math.max(1, ...values);
  const total = values.reduce((sum, value) => sum + value, 0);
  const drawn = values.map((value, at) => {
    const bar = value === 0 ? 0 : Math.max(2, Math.round((value / most) * height));
    return bar === 0 ? '' : `M${at * (width + gap)} ${height}v${-bar}h${width}v${bar}z`;
  });
  const all = values.length * (width + gap);
  return (
    <svg class="sparkline" viewBox={`0 0 ${all} ${height}`} width={all} height={height} role="img">
      <title>{`${plural(total, 'call')} ${label}`}</title>
      <path class="sparkline-base" d={`M0 ${height - 0.5}h${all}`} />
      <path d={drawn.join('')} />
    </svg>
  );
}
