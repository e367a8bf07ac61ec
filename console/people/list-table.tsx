import { hrefOf } from '../frame/route.ts';
import { Card } from '../parts/card.tsx';
import { Empty } from '../parts/notice.tsx';
import { type Column, Table, WindowedTable } from '../parts/table.tsx';

interface ListTableProps<Row> {
  readonly tab: string;
  readonly caption: string;
  /** The plural noun of the rows. */
  readonly noun: string;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly keyOf: (row: Row) => string;
}

/** Above this number only the rows in view are drawn. */
const maxDrawn = 200;

/** The rows of a tab that pass its filters. */
export function ListTable<Row>({ tab, caption, noun, columns, rows, keyOf }: ListTableProps<Row>) {
  if (rows.length === 0) {
    return (
      <Card>
        <Empty title={`No ${noun} match the filters.`}>
          <a href={hrefOf(['people'], { tab })}>Show all {noun}</a>
        </Empty>
      </Card>
    );
  }
  if (rows.length > maxDrawn) {
    return <WindowedTable caption={caption} columns={columns} rows={rows} keyOf={keyOf} />;
  }
  return (
    <Card isFlush>
      <Table caption={caption} columns={columns} rows={rows} keyOf={keyOf} isStacked />
    </Card>
  );
}
