import { readQuery } from '../frame/route.ts';
import { Badge } from '../parts/badge.tsx';
import { Actions, Button } from '../parts/button.tsx';
import { Card } from '../parts/card.tsx';
import { ChoiceFilter, Filters, TextFilter } from '../parts/filters.tsx';
import { Answer, Empty, NextStep } from '../parts/notice.tsx';
import { SameData } from '../parts/same-data.tsx';
import type { Column } from '../parts/table.tsx';
import { Ago, makeVisible, Text } from '../parts/text.tsx';
import { isAdmin } from '../sign-in/signed-in.ts';
import { RemoveCredential, SetCredential } from './credential-dialogs.tsx';
import { ListTable } from './list-table.tsx';
import { type Credential, listUserNames, selectByName } from './lists.ts';
import { ShortName } from './names.tsx';
import type { PeopleTabProps } from './people.tsx';

/** The credentials that servers are given in the sessions of users. Their values are never shown. */
export function CredentialsTab(props: PeopleTabProps) {
  const { lists } = props;
  const servers = [...new Set(lists.credentials.answer.value?.credentials.map(({ server }) => server))].sort();
  return (
    <>
      <Filters>
        <TextFilter name="user" label="User" placeholder="Any" known={listUserNames(lists)} />
        <TextFilter name="server" label="Server" placeholder="Any" known={servers} />
        <ChoiceFilter
          name="usable"
          label="Value"
          options={[
            ['', 'All'],
            ['true', 'Usable'],
            ['false', 'Cannot be decrypted'],
          ]}
        />
      </Filters>
      <Answer of={lists.credentials}>
        {({ credentials }) =>
          credentials.length === 0 ? (
            <Card>
              <Empty title="There are no credentials yet.">
                A credential is a token that a server needs for a user.{' '}
                <NextStep
                  button="Set credential"
                  command="ambit credential set --user ada --server notes --env NOTES_TOKEN"
                />
              </Empty>
            </Card>
          ) : (
            <ListTable
              tab="credentials"
              caption="Credentials"
              noun="credentials"
              rows={selectCredentials(credentials)}
              keyOf={({ userId, server, env, header }) => JSON.stringify([userId, server, env, header])}
              columns={listColumns(props)}
            />
          )
        }
      </Answer>
      <SameData command="ambit credential list --json" path="/api/v1/credentials" />
    </>
  );
}

function selectCredentials(credentials: readonly Credential[]): readonly Credential[] {
  const usable = readQuery('usable');
  const ofUser = selectByName(credentials, ({ userId }) => userId, readQuery('user'));
  return selectByName(ofUser, ({ server }) => server, readQuery('server')).filter(
    (each) => usable === '' || String(each.usable) === usable,
  );
}

function listColumns({ lists, dialogs, onDone }: PeopleTabProps): Column<Credential>[] {
  const columns: Column<Credential>[] = [
    { label: 'User', isTitle: true, width: '12rem', cell: ({ userId }) => <ShortName value={userId} /> },
    { label: 'Server', width: '12rem', cell: ({ server }) => <ShortName value={server} /> },
    { label: 'Given as', width: '14rem', cell: (credential) => <GivenAs of={credential} /> },
    { label: 'Set', from: 'tablet', width: '8rem', cell: ({ setAt }) => <Ago at={setAt} /> },
    {
      label: 'Value',
      width: '11rem',
      cell: ({ usable }) =>
        usable ? (
          <Badge tone="good">usable</Badge>
        ) : (
          <span title="It was stored with another encryption key. Calls that need it fail. Set it again.">
            <Badge tone="bad">cannot be decrypted</Badge>
          </span>
        ),
    },
  ];
  if (!isAdmin.value) return columns;
  return [
    ...columns,
    {
      label: 'Actions',
      width: '12rem',
      cell: (credential) => {
        const name = makeVisible(
          `${credential.env ?? credential.header} of ${credential.userId} for ${credential.server}`,
        );
        return (
          <Actions isRow>
            <Button
              label={`Replace ${name}`}
              onClick={() =>
                dialogs.open((close) => <SetCredential of={credential} lists={lists} onDone={onDone} onClose={close} />)
              }
            >
              Replace
            </Button>
            <Button
              kind="danger"
              label={`Remove ${name}`}
              onClick={() =>
                dialogs.open((close) => <RemoveCredential of={credential} onDone={onDone} onClose={close} />)
              }
            >
              Remove
            </Button>
          </Actions>
        );
      },
    },
  ];
}

function GivenAs({ of: { env, header } }: { readonly of: Credential }) {
  return (
    <span>
      <code>
        <Text value={env ?? header ?? ''} max={60} />
      </code>{' '}
      <span class="muted">{env === undefined ? 'header' : 'variable'}</span>
    </span>
  );
}
