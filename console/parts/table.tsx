import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import './table.css';

export interface Column<Row> {
  readonly label: string;
  readonly cell: (row: Row) => ComponentChildren;
  readonly isNumber?: boolean;
  /** Hidden where the screen is narrower than a tablet or a desktop. */
  readonly from?: 'tablet' | 'desktop';
  /** Names the row. In stacked rows it comes first and has no label. */
  readonly isTitle?: boolean;
  /** The width in a windowed table, as CSS writes it, and the one on a phone if it differs. */
  readonly width?: string;
  readonly phoneWidth?: string;
}

interface TableProps<Row> {
  /** Names the table for screen readers. */
  readonly caption: string;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly keyOf: (row: Row) => string;
  readonly isMarked?: (row: Row) => boolean;
}

function cellClass<Row>({ isNumber, isTitle, from }: Column<Row>): string {
  const classes = [
    isNumber === true && 'number',
    isTitle === true && 'cell-title',
    from !== undefined && `from-${from}`,
  ];
  return classes.filter(Boolean).join(' ');
}

interface StackedProps {
  /** On a narrow screen each row becomes a block that shows all columns with their labels. */
  readonly isStacked?: boolean;
}

export function Table<Row>({ caption, columns, rows, keyOf, isMarked, isStacked }: TableProps<Row> & StackedProps) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
    <section class="table-scroll" aria-label={caption} tabIndex={0}>
      <table class={isStacked === true ? 'table table-stacked' : 'table'}>
        <caption class="hidden-visually">{caption}</caption>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column.label} scope="col" class={cellClass(column)}>
                {column.label}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={keyOf(row)} class={isMarked?.(row) === true ? 'row-marked' : undefined}>
              {columns.map((column) => (
                <td key={column.label} class={cellClass(column)} data-label={column.label}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

const rowHeight = 44;
const overscan = 8;

/** A table that draws only the rows in view, so that thousands of rows scroll smoothly. All rows have the same height. */
export function WindowedTable<Row>({ caption, columns, rows, keyOf, isMarked }: TableProps<Row>) {
  const box = useRef<HTMLElement>(null);
  const first = useSignal(0);
  const height = useSignal(800);
  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    const measure = () => {
      height.value = element.clientHeight;
      first.value = Math.floor(element.scrollTop / rowHeight);
    };
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    element.addEventListener('scroll', measure, { passive: true });
    return () => {
      observer.disconnect();
      element.removeEventListener('scroll', measure);
    };
  }, []);
  const start = Math.max(0, Math.min(first.value, rows.length - 1) - overscan);
  const end = Math.min(rows.length, start + Math.ceil(height.value / rowHeight) + overscan * 2);
  const shown = rows.slice(start, end);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
    <section class="table-window" ref={box} aria-label={caption} tabIndex={0}>
      <table class="table table-fixed" aria-rowcount={rows.length + 1}>
        <caption class="hidden-visually">{caption}</caption>
        <colgroup>
          {columns.map(({ label, width = 'auto', phoneWidth = width, from }) => (
            <col
              key={label}
              class={from === undefined ? undefined : `from-${from}`}
              style={{ '--width': width, '--phone-width': phoneWidth }}
            />
          ))}
        </colgroup>
        <thead>
          <tr aria-rowindex={1}>
            {columns.map((column) => (
              <th key={column.label} scope="col" class={cellClass(column)}>
                {column.label}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {start > 0 && (
            <tr class="table-gap" style={{ height: `${start * rowHeight}px` }}>
              <td colSpan={columns.length} />
            </tr>
          )}
          {shown.map((row, at) => (
            <tr
              key={keyOf(row)}
              aria-rowindex={start + at + 2}
              class={isMarked?.(row) === true ? 'row-marked' : undefined}
            >
              {columns.map((column) => (
                <td key={column.label} class={cellClass(column)}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
          {end < rows.length && (
            <tr class="table-gap" style={{ height: `${(rows.length - end) * rowHeight}px` }}>
              <td colSpan={columns.length} />
            </tr>
          )}
        </tbody>
      </table>
    </section>
  );
}
