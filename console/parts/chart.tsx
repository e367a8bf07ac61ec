import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { formatAxisTime, formatPointedTime } from './format.ts';
import './chart.css';

interface ChartSeries {
  readonly label: string;
  /** The number of the chart colour in the tokens. */
  readonly colour: 1 | 2 | 3 | 4;
  readonly values: readonly (number | null)[];
  /** The value of the whole time, which is shown while the pointer is at no time. */
  readonly whole: number | null;
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

interface Plot {
  destroy(): void;
  setSize(size: { width: number; height: number }): void;
  setData(data: [number[], ...(number | null)[][]]): void;
}

/** Draws values over time. The drawing library is loaded with the first chart. */
export function Chart({ title, times, series, format }: ChartProps) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<Plot>(undefined);
  /** The time that the pointer is at. */
  const pointed = useSignal<number | null>(null);
  const data = useRef(toPlotData(times, series));
  data.current = toPlotData(times, series);
  const isEmpty = times.length === 0;
  useEffect(() => {
    const element = box.current;
    if (element === null || isEmpty) return;
    let isGone = false;
    void import('uplot').then(async ({ default: Plot }) => {
      await import('uplot/dist/uPlot.min.css');
      if (isGone) return;
      const style = getComputedStyle(element);
      // Functions, because the colours change with the scheme.
      const colour = (name: string) => () => resolveColour(element, name);
      const axis = {
        stroke: colour('--text-muted'),
        grid: { stroke: colour('--line'), width: 1 },
        ticks: { show: false },
        font: `12px ${style.fontFamily}`,
      };
      plot.current = new Plot(
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
              values: (_plot, seconds) =>
                seconds.map((second) => formatAxisTime(second * 1000, findRange(data.current[0]))),
            },
            { ...axis, size: 56, values: (_plot, values) => values.map((value) => format(value)) },
          ],
          series: [
            {},
            ...series.map(({ label, colour: number }, at) => ({
              label,
              stroke: colour(`--chart-${number}`),
              width: 2,
              spanGaps: true,
              // A value between two gaps would not be seen as a line.
              points: { show: () => countValues(data.current[at + 1]) <= maxPoints, size: 5 },
            })),
          ],
          hooks: {
            setCursor: [
              ({ cursor }) => {
                const second = data.current[0][cursor.idx ?? -1];
                pointed.value = second === undefined ? null : second * 1000;
              },
            ],
          },
        },
        data.current,
        element,
      );
    });
    const observer = new ResizeObserver(() =>
      plot.current?.setSize({ width: element.clientWidth, height: chartHeight }),
    );
    observer.observe(element);
    return () => {
      isGone = true;
      observer.disconnect();
      plot.current?.destroy();
      plot.current = undefined;
    };
  }, [isEmpty]);
  useEffect(() => plot.current?.setData(data.current), [times, series]);
  const index = pointed.value === null ? -1 : times.indexOf(pointed.value);
  const at = times[index];
  return (
    <figure class="chart">
      <figcaption>
        <span class="chart-title">
          {title}
          {at !== undefined && ` at ${formatPointedTime(at, findRange(data.current[0]))}`}
        </span>
        {series.map(({ label, colour, values, whole }) => {
          const value = at === undefined ? whole : values[index];
          return (
            <span key={label} class="chart-key">
              <span class={`chart-dot chart-dot-${colour}`} aria-hidden="true" />
              {label} <strong>{value === null || value === undefined ? 'none' : format(value)}</strong>
            </span>
          );
        })}
      </figcaption>
      <div ref={box} class="chart-plot" role="img" aria-label={`${title}, over time`} />
    </figure>
  );
}

function toPlotData(times: readonly number[], series: readonly ChartSeries[]): [number[], ...(number | null)[][]] {
  return [times.map((time) => time / 1000), ...series.map(({ values }) => [...values])];
}

/** Computes the milliseconds from the first time to the last. */
function findRange(seconds: readonly number[]): number {
  return ((seconds.at(-1) ?? 0) - (seconds[0] ?? 0)) * 1000;
}

function countValues(values: readonly (number | null)[] = []): number {
  return values.filter((value) => value !== null).length;
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
