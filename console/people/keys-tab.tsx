import { hrefOf, readQuery } from '../frame/route.ts';
import { StateBadge, TrustBadge } from '../parts/badge.tsx';
import { Actions, Button } from '../parts/button.tsx';
import { Card } from '../parts/card.tsx';
import { ChoiceFilter, Filters, TextFilter } from '../parts/filters.tsx';
import { Answer, Empty, NextStep } from '../parts/notice.tsx';
import { quoteWord } from '../parts/quote-word.ts';
import { SameData } from '../parts/same-data.tsx';
import type { Column } from '../parts/table.tsx';
import { Ago, Id, makeVisible, Text, Until } from '../parts/text.tsx';
import { isAdmin } from '../sign-in/signed-in.ts';
import { RevokeKey, RotateKey } from './key-dialogs.tsx';
import { ListTable } from './list-table.tsx';
import { type Key, listUserNames, selectByName } from './lists.ts';
import { Names } from './names.tsx';
import type { PeopleTabProps } from './people.tsx';

/** The API keys with their state and their limits. */
export function KeysTab(props: PeopleTabProps) {
  const { lists } = props;
  const user = readQuery('user');
  const isExact = lists.keys.answer.value?.keys.some(({ userId }) => userId === user) === true;
  return (
    <>
      <Filters>
        <TextFilter name="user" label="User" placeholder="Any" known={listUserNames(lists)} />
        <ChoiceFilter
          name="state"
          label="State"
          options={[
            ['', 'All'],
            ['active', 'Active'],
            ['expired', 'Expired'],
            ['revoked', 'Revoked'],
          ]}
        />
        <ChoiceFilter
          name="trust"
          label="Trust ceiling"
          options={[
            ['', 'All'],
            ['sandboxed', 'sandboxed'],
            ['direct', 'direct'],
          ]}
        />
        <TextFilter name="key" label="Key id" placeholder="Start of the id" />
      </Filters>
      <Answer of={lists.keys}>
        {({ keys }) =>
          keys.length === 0 ? (
            <Card>
              <Empty title="There are no keys yet.">
                With a key, clients open sessions of a user.{' '}
                <NextStep button="Create key" command="ambit key create --user ada --expires 30d" />
              </Empty>
            </Card>
          ) : (
            <ListTable
              tab="keys"
              caption="Keys"
              noun="keys"
              rows={selectKeys(keys)}
              keyOf={({ id }) => id}
              columns={listColumns(props)}
            />
          )
        }
      </Answer>
      <SameData
        command={`ambit key list --json${isExact ? ` --user ${quoteWord(user)}` : ''}`}
        path={`/api/v1/keys${isExact ? `?${new URLSearchParams({ user })}` : ''}`}
      />
    </>
  );
}

const stateOrder = ['active', 'expired', 'revoked'];

function selectKeys(keys: readonly Key[]): Key[] {
  const [state, trust, id] = [readQuery('state'), readQuery('trust'), readQuery('key')];
  return selectByName(keys, ({ userId }) => userId, readQuery('user'))
    .filter(
      (key) =>
        (state === '' || key.state === state) && (trust === '' || key.trustLevel === trust) && key.id.startsWith(id),
    )
    .sort((a, b) => stateOrder.indexOf(a.state) - stateOrder.indexOf(b.state) || (a.createdAt < b.createdAt ? 1 : -1));
}

function listColumns({ lists, dialogs, onDone }: PeopleTabProps): Column<Key>[] {
  const columns: Column<Key>[] = [
    { label: 'Key', isTitle: true, width: '6.5rem', cell: ({ id }) => <Id value={id} /> },
    { label: 'State', width: '5.5rem', cell: ({ state }) => <StateBadge state={state} /> },
    {
      label: 'User',
      width: '7rem',
      cell: ({ userId }) => (
        <span class="people-short">
          <a href={hrefOf(['sessions'], { user: userId })} aria-label={`Sessions of ${makeVisible(userId)}`}>
            <Text value={userId} max={60} />
          </a>
        </span>
      ),
    },
    { label: 'Trust', from: 'tablet', width: '7rem', cell: ({ trustLevel }) => <TrustBadge level={trustLevel} /> },
    {
      label: 'Workspaces',
      from: 'desktop',
      width: '7rem',
      cell: ({ workspaces }) => (workspaces === null ? 'All' : <Names values={workspaces} none="None" max={2} />),
    },
    {
      label: 'Scopes',
      from: 'desktop',
      width: '9rem',
      cell: ({ scopes }) => <Names values={scopes ?? []} none={scopes === null ? 'None, no limit' : 'None'} max={2} />,
    },
    { label: 'Created', from: 'desktop', width: '6.5rem', cell: ({ createdAt }) => <Ago at={createdAt} /> },
    { label: 'Expires', from: 'tablet', width: '8rem', cell: (key) => <Expiry of={key} /> },
    { label: 'Last used', from: 'desktop', width: '6rem', cell: ({ lastUsedAt }) => <Ago at={lastUsedAt} /> },
  ];
  if (!isAdmin.value) return columns;
  return [
    ...columns,
    {
      label: 'Actions',
      width: '10.5rem',
      cell: (key) =>
        key.state === 'revoked' ? null : (
          <Actions isRow>
            {key.state === 'active' && (
              <Button
                label={`Rotate key ${key.id.slice(0, 8)} of ${makeVisible(key.userId)}`}
                onClick={() =>
                  dialogs.open((close) => <RotateKey of={key} lists={lists} onDone={onDone} onClose={close} />)
                }
              >
                Rotate
              </Button>
            )}
            <Button
              kind="danger"
              label={`Revoke key ${key.id.slice(0, 8)} of ${makeVisible(key.userId)}`}
              onClick={() =>
                dialogs.open((close) => <RevokeKey of={key} lists={lists} onDone={onDone} onClose={close} />)
              }
            >
              Revoke
            </Button>
          </Actions>
        ),
    },
  ];
}

/** Shows when the key ends, and until when the secret from before a rotation is accepted. */
function Expiry({ of: { expiresAt, revokedAt, previousUntil } }: { readonly of: Key }) {
  if (revokedAt !== null) {
    return (
      <span>
        revoked <Ago at={revokedAt} />
      </span>
    );
  }
  const hasPrevious = previousUntil !== null && Date.parse(previousUntil) > Date.now();
  return (
    <span class="people-expiry">
      {expiresAt === null ? (
        <span class="muted">never</span>
      ) : Date.parse(expiresAt) <= Date.now() ? (
        <Ago at={expiresAt} />
      ) : (
        <Until at={expiresAt} />
      )}
      {hasPrevious && (
        <span class="muted">
          old secret ends <Until at={previousUntil} />
        </span>
      )}
    </span>
  );
}
