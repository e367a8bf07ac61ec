import { hrefOf, readQuery } from '../frame/route.ts';
import { Badge } from '../parts/badge.tsx';
import { Actions, Button } from '../parts/button.tsx';
import { Card } from '../parts/card.tsx';
import { ChoiceFilter, Filters, TextFilter } from '../parts/filters.tsx';
import { plural } from '../parts/format.ts';
import { Answer, Empty, NextStep } from '../parts/notice.tsx';
import { SameData } from '../parts/same-data.tsx';
import { type Column, Table } from '../parts/table.tsx';
import { makeVisible, Text } from '../parts/text.tsx';
import { isAdmin } from '../sign-in/signed-in.ts';
import { RemoveObjective } from './objective-dialogs.tsx';
import type { PolicyTabProps } from './policies.tsx';
import { describeScope, groupByScope, type Objective, scopeKinds, selectEntries } from './scope.ts';

/** All objectives, grouped by the scope that they apply to. */
export function ObjectivesTab(props: PolicyTabProps) {
  return (
    <>
      <Filters>
        <ChoiceFilter name="scope" label="Scope" options={[['', 'All'], ...scopeKinds]} />
        <TextFilter name="words" label="Contains" placeholder="Id or text" />
      </Filters>
      <Answer of={props.objectives}>
        {({ objectives }) => {
          const groups = groupByScope(
            selectEntries(objectives, {
              kind: readQuery('scope'),
              words: readQuery('words'),
              nameOf: ({ id }) => id,
            }),
          );
          if (objectives.length === 0) {
            return (
              <Card>
                <Empty title="There are no objectives yet.">
                  An objective says what the work is for.{' '}
                  <NextStep
                    button="Add objective"
                    command="ambit objective add --scope org 'Reduce deployment time to under 5 minutes'"
                  />
                </Empty>
              </Card>
            );
          }
          if (groups.length === 0) {
            return (
              <Card>
                <Empty title="No objectives match the filters.">
                  <a href={hrefOf(['policies'], { tab: 'objectives' })}>Show all objectives</a>
                </Empty>
              </Card>
            );
          }
          return (
            <div class="policies-groups policies-groups-objectives">
              {groups.map(({ scope, entries }) => (
                <Card
                  key={scope}
                  title={makeVisible(describeScope(scope))}
                  aside={plural(entries.length, 'objective')}
                  isFlush
                >
                  <Table
                    caption={`Objectives of ${makeVisible(describeScope(scope))}`}
                    rows={entries}
                    keyOf={({ id }) => id}
                    columns={listColumns(props)}
                    isStacked
                  />
                </Card>
              ))}
            </div>
          );
        }}
      </Answer>
      <SameData command="ambit objective list --json" path="/api/v1/objectives" />
    </>
  );
}

function listColumns({ dialogs, onDone }: PolicyTabProps): Column<Objective>[] {
  const columns: Column<Objective>[] = [
    { label: 'Order', isNumber: true, from: 'tablet', cell: ({ order }) => order },
    {
      label: 'Objective',
      isTitle: true,
      cell: ({ text, enabled, declared }) => (
        <div class="policies-objective">
          <Text value={text} max={300} keep={'\n'} />
          {!enabled && <Badge tone="warn">disabled</Badge>}
          {declared && <Badge tone="info">in the configuration</Badge>}
        </div>
      ),
    },
    { label: 'Id', from: 'tablet', cell: ({ id }) => <code class="nowrap">{makeVisible(id)}</code> },
  ];
  if (!isAdmin.value) return columns;
  return [
    ...columns,
    {
      label: 'Actions',
      cell: (objective) =>
        objective.declared ? (
          <span class="muted">Change it in the file</span>
        ) : (
          <Actions isRow>
            <Button
              kind="danger"
              label={`Remove objective ${objective.id}`}
              onClick={() =>
                dialogs.open((close) => <RemoveObjective of={objective} onDone={onDone} onClose={close} />)
              }
            >
              Remove
            </Button>
          </Actions>
        ),
    },
  ];
}
