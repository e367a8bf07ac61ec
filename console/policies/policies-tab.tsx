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
import type { PolicyTabProps } from './policies.tsx';
import { EnablePolicy, RemovePolicy } from './policy-dialogs.tsx';
import { PolicyEditor } from './policy-editor.tsx';
import { describeScope, groupByScope, type Policy, scopeKinds, selectEntries } from './scope.ts';

/** All policies, grouped by the scope that they apply to. */
export function PoliciesTab(props: PolicyTabProps) {
  const { policies } = props;
  return (
    <>
      <Filters>
        <ChoiceFilter name="scope" label="Scope" options={[['', 'All'], ...scopeKinds]} />
        <ChoiceFilter
          name="state"
          label="State"
          options={[
            ['', 'All'],
            ['enabled', 'Enabled'],
            ['disabled', 'Disabled'],
            ['locked', 'Locked'],
          ]}
        />
        <TextFilter name="words" label="Contains" placeholder="Name or text" />
      </Filters>
      <Answer of={policies}>
        {({ policies: all }) => {
          const groups = groupByScope(selectPolicies(all));
          if (all.length === 0) {
            return (
              <Card>
                <Empty title="There are no policies yet.">
                  A policy says how the model has to work.{' '}
                  <NextStep
                    button="Add policy"
                    command="ambit policy add --scope org --name require-tests 'All changes must include tests.'"
                  />
                </Empty>
              </Card>
            );
          }
          if (groups.length === 0) {
            return (
              <Card>
                <Empty title="No policies match the filters.">
                  <a href={hrefOf(['policies'], { tab: 'policies' })}>Show all policies</a>
                </Empty>
              </Card>
            );
          }
          return (
            <div class="policies-groups">
              {groups.map(({ scope, entries }) => (
                <Card
                  key={scope}
                  title={makeVisible(describeScope(scope))}
                  aside={plural(entries.length, 'policy', 'policies')}
                  isFlush
                >
                  <Table
                    caption={`Policies of ${makeVisible(describeScope(scope))}`}
                    rows={entries}
                    keyOf={({ name }) => name}
                    columns={listColumns(props)}
                    isStacked
                  />
                </Card>
              ))}
            </div>
          );
        }}
      </Answer>
      <SameData command="ambit policy list --json" path="/api/v1/policies" />
    </>
  );
}

function selectPolicies(policies: readonly Policy[]): readonly Policy[] {
  const state = readQuery('state');
  const found = selectEntries(policies, {
    kind: readQuery('scope'),
    words: readQuery('words'),
    nameOf: ({ name }) => name,
  });
  if (state === 'locked') return found.filter(({ locked }) => locked);
  return found.filter(({ enabled }) => state === '' || enabled === (state === 'enabled'));
}

function listColumns(props: PolicyTabProps): Column<Policy>[] {
  const columns: Column<Policy>[] = [
    { label: 'Order', isNumber: true, from: 'tablet', cell: ({ order }) => order },
    {
      label: 'Policy',
      isTitle: true,
      cell: (policy) => (
        <div class="policies-name">
          <strong>
            <Text value={policy.name} />
          </strong>
          <PolicyBadges of={policy} />
        </div>
      ),
    },
    { label: 'Mode', from: 'tablet', cell: ({ mode }) => mode },
    {
      label: 'Text',
      cell: ({ text }) => (
        <div class="policies-text">
          <Text value={text} max={200} keep={'\n'} />
        </div>
      ),
    },
  ];
  if (!isAdmin.value) return columns;
  return [...columns, { label: 'Actions', cell: (policy) => <PolicyActions of={policy} {...props} /> }];
}

export function PolicyBadges({ of: { enabled, locked, declared } }: { readonly of: Policy }) {
  return (
    <>
      {!enabled && <Badge tone="warn">disabled</Badge>}
      {locked && <Badge tone="accent">locked</Badge>}
      {declared && <Badge tone="info">in the configuration</Badge>}
    </>
  );
}

function PolicyActions({ of, policies, dialogs, onDone }: PolicyTabProps & { readonly of: Policy }) {
  if (of.declared) return <span class="muted">Change it in the file</span>;
  const name = makeVisible(`${of.name} of ${describeScope(of.scope)}`);
  const verb = of.enabled ? 'Disable' : 'Enable';
  return (
    <Actions isRow>
      <Button
        label={`Edit policy ${name}`}
        onClick={() =>
          dialogs.open((close) => <PolicyEditor of={of} policies={policies} onDone={onDone} onClose={close} />)
        }
      >
        Edit
      </Button>
      <Button
        label={`${verb} policy ${name}`}
        onClick={() => dialogs.open((close) => <EnablePolicy of={of} onDone={onDone} onClose={close} />)}
      >
        {verb}
      </Button>
      <Button
        kind="danger"
        label={`Remove policy ${name}`}
        onClick={() => dialogs.open((close) => <RemovePolicy of={of} onDone={onDone} onClose={close} />)}
      >
        Remove
      </Button>
    </Actions>
  );
}
