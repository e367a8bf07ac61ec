import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { formatAxisTime } from './format.ts';
import './chart.css';

interface ChartSeries {
  readonly label: string;
  /** The number of the chart colour in the tokens. */
  readonly colour: 1 | 2 | 3 | 4;
  readonly values: readonly (number | null)[];
  readonly isBars?: boolean;
}

interface ChartProps {
  readonly title: string;
  /** The times of the points, in milliseconds. */
  readonly times: readonly number[];
  readonly series: readonly ChartSeries[];
  readonly format: (value: number) => string;
}

const chartHeight = 180;
const maxPoints = 20;

/** Draws values over time. The drawing library is loaded with the first chart. */
export function Chart({ title, times, series, format }: ChartProps) {
  const box = useRef<HTMLDivElement>(null);
  const at = useSignal<number | null>(null);
  useEffect(() => {
    const element = box.current;
    if (element === null || times.length === 0) return;
    let plot: { destroy(): void; setSize(size: { width: number; height: number }): void } | undefined;
    let isGone = false;
    void import('uplot').then(async ({ default: Plot }) => {
      await import('uplot/dist/uPlot.min.css');
      if (isGone) return;
      const style = getComputedStyle(element);
      const rangeMs = (times.at(-1) ?? 0) - (times[0] ?? 0);
      const colour = (name: string) => resolveColour(element, name);
      const axis = {
        stroke: colour('--text-muted'),
        grid: { stroke: colour('--line'), width: 1 },
        ticks: { show: false },
        font: `12px ${style.fontFamily}`,
      };
      plot = new Plot(
        {
          width: element.clientWidth,
          height: chartHeight,
          legend: { show: false },
          cursor: { y: false, drag: { x: false, y: false } },
          scales: { y: { range: (_plot, _low, high) => [0, Math.max(1, high * 1.1)] } },
          axes: [
            {
              ...axis,
              size: 30,
              values: (_plot, seconds) => seconds.map((second) => formatAxisTime(second * 1000, rangeMs)),
            },
            { ...axis, size: 56, values: (_plot, values) => values.map((value) => format(value)) },
          ],
          series: [
            {},
            ...series.map(({ label, colour: number, isBars, values }) => ({
              label,
              stroke: colour(`--chart-${number}`),
              width: isBars === true ? 0 : 2,
              spanGaps: true,
              // A value between two gaps would not be seen as a line.
              points: { show: values.filter((value) => value !== null).length <= maxPoints, size: 5 },
              ...(isBars === true && Plot.paths.bars !== undefined
                ? { fill: colour(`--chart-${number}`), paths: Plot.paths.bars({ size: [0.8, 60, 2] }) }
                : {}),
            })),
          ],
          hooks: {
            setCursor: [
              ({ cursor }) => {
                at.value = cursor.idx ?? null;
              },
            ],
          },
        },
        [times.map((time) => time / 1000), ...series.map(({ values }) => [...values])],
        element,
      );
    });
    const observer = new ResizeObserver(() => plot?.setSize({ width: element.clientWidth, height: chartHeight }));
    observer.observe(element);
    return () => {
      isGone = true;
      observer.disconnect();
      plot?.destroy();
    };
  }, [times, series]);
  const index = at.value ?? times.length - 1;
  return (
    <figure class="chart">
      <figcaption>
        <span class="chart-title">{title}</span>
        {series.map(({ label, colour, values }) => (
          <span key={label} class="chart-key">
            <span class={`chart-dot chart-dot-${colour}`} aria-hidden="true" />
            {label} <strong>{format(values[index] ?? 0)}</strong>
          </span>
        ))}
      </figcaption>
      <div ref={box} class="chart-plot" role="img" aria-label={`${title}, over time`} />
    </figure>
  );
}

/** Reads a colour token as the canvas needs it: tokens for light and dark are resolved by an element only. */
function resolveColour(element: HTMLElement, token: string): string {
  const probe = document.createElement('span');
  probe.style.color = `var(${token})`;
  element.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}
