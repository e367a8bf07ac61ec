import { readQuery } from '../frame/route.ts';
import { Badge, type Tone } from '../parts/badge.tsx';
import { Card } from '../parts/card.tsx';
import { ChoiceFilter, Filters, TextFilter } from '../parts/filters.tsx';
import { plural } from '../parts/format.ts';
import { Empty } from '../parts/notice.tsx';
import { Table } from '../parts/table.tsx';
import { makeVisible, Text } from '../parts/text.tsx';
import type { ServerDetails } from './server-view.tsx';
import { ToolParts } from './tool-parts.tsx';

const tones: Readonly<Record<string, Tone>> = {
  approved: 'good',
  new: 'warn',
  changed: 'warn',
  removed: 'plain',
  withheld: 'bad',
  'not pinned': 'plain',
};
const maxRows = 300;

/** The tools of a server, and which of them changed since the approval. */
export function ServerTools({ details }: { readonly details: ServerDetails }) {
  const { tools, approval } = details;
  const canStart = approval === 'approved' || approval === 'not needed';
  const [text, show] = [readQuery('tool').toLowerCase(), readQuery('tools')];
  const rows = tools.filter(
    ({ name, state }) =>
      name.toLowerCase().includes(text) && (show === '' || (state !== 'approved' && state !== 'not pinned')),
  );
  return (
    <Card title="Tools" aside={plural(tools.length, 'tool')} isFlush>
      {tools.length === 0 ? (
        <Empty title="The tools are not known yet.">
          {canStart ? 'Check the server, or let a session list its tools.' : 'Approve the server first.'}
        </Empty>
      ) : (
        <>
          <div class="server-filters">
            <Filters>
              <TextFilter name="tool" label="Tool" />
              <ChoiceFilter
                name="tools"
                label="Show"
                options={[
                  ['', 'All'],
                  ['changed', 'New, changed or hidden'],
                ]}
              />
            </Filters>
          </div>
          {rows.length === 0 ? (
            <Empty title="No tool matches these filters." />
          ) : (
            <Table
              caption="Tools"
              rows={rows.slice(0, maxRows)}
              keyOf={({ name }) => name}
              isStacked
              columns={[
                {
                  label: 'Tool',
                  isTitle: true,
                  cell: ({ name }) => (
                    <code>
                      <Text value={name} max={120} />
                    </code>
                  ),
                },
                { label: 'State', cell: ({ state }) => <Badge tone={tones[state] ?? 'plain'}>{state}</Badge> },
                {
                  label: 'Description of the server',
                  cell: ({ name, description, changes, parts }) => (
                    <div>
                      <Text value={description ?? ''} max={160} />
                      {changes.map((change) => (
                        <p key={change} class="muted">
                          <Text value={change} />
                        </p>
                      ))}
                      {parts.length > 0 && (
                        <details>
                          <summary>
                            What changed in <bdi>{makeVisible(name.slice(0, 40))}</bdi>
                          </summary>
                          <ToolParts tool={name} parts={parts} />
                        </details>
                      )}
                    </div>
                  ),
                },
              ]}
            />
          )}
          {rows.length > maxRows && <p class="server-filters muted">Only the first {maxRows} tools are shown.</p>}
        </>
      )}
    </Card>
  );
}
