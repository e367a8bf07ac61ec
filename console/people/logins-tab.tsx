import { readQuery } from '../frame/route.ts';
import { StateBadge } from '../parts/badge.tsx';
import { Actions, Button } from '../parts/button.tsx';
import { Card } from '../parts/card.tsx';
import { ChoiceFilter, Filters, TextFilter } from '../parts/filters.tsx';
import { Answer, Empty, NextStep } from '../parts/notice.tsx';
import { SameData } from '../parts/same-data.tsx';
import type { Column } from '../parts/table.tsx';
import { Ago, makeVisible, Text, Until } from '../parts/text.tsx';
import { isAdmin } from '../sign-in/signed-in.ts';
import { ListTable } from './list-table.tsx';
import { type Login, listUserNames, selectByName } from './lists.ts';
import { RemoveLogin, StartLogin } from './login-dialogs.tsx';
import { Names, ShortName } from './names.tsx';
import type { PeopleTabProps } from './people.tsx';

const stateHints = {
  active: '',
  lost: 'The user must log in again.',
  wanted: 'The server asks for more scopes than the user granted. The user must log in again.',
} as const;

/** The OAuth logins of users at servers. */
export function LoginsTab(props: PeopleTabProps) {
  const { lists } = props;
  const servers = [...new Set(lists.logins.answer.value?.logins.map(({ server }) => server))].sort();
  return (
    <>
      <Filters>
        <TextFilter name="user" label="User" placeholder="Any" known={listUserNames(lists)} />
        <TextFilter name="server" label="Server" placeholder="Any" known={servers} />
        <ChoiceFilter
          name="login"
          label="State"
          options={[
            ['', 'All'],
            ['active', 'Active'],
            ['lost', 'Lost'],
            ['wanted', 'More scopes wanted'],
          ]}
        />
      </Filters>
      <Answer of={lists.logins}>
        {({ logins }) =>
          logins.length === 0 ? (
            <Card>
              <Empty title="There are no logins yet.">
                A login gives a user access to a server over HTTP.{' '}
                <NextStep button="Start login" command="ambit login SERVER --user ada" />
              </Empty>
            </Card>
          ) : (
            <ListTable
              tab="logins"
              caption="Logins"
              noun="logins"
              rows={selectLogins(logins)}
              keyOf={({ userId, server }) => JSON.stringify([userId, server])}
              columns={listColumns(props)}
            />
          )
        }
      </Answer>
      <SameData command="ambit credential list --json" path="/api/v1/logins" />
    </>
  );
}

function selectLogins(logins: readonly Login[]): readonly Login[] {
  const state = readQuery('login');
  const ofUser = selectByName(logins, ({ userId }) => userId, readQuery('user'));
  return selectByName(ofUser, ({ server }) => server, readQuery('server')).filter(
    (each) => state === '' || each.state === state,
  );
}

function listColumns({ lists, dialogs, onDone }: PeopleTabProps): Column<Login>[] {
  const columns: Column<Login>[] = [
    { label: 'User', isTitle: true, width: '10rem', cell: ({ userId }) => <ShortName value={userId} /> },
    { label: 'Server', width: '10rem', cell: ({ server }) => <ShortName value={server} /> },
    {
      label: 'State',
      width: '16rem',
      cell: ({ state, why }) => (
        <span class="people-state">
          <StateBadge state={state} />
          {state !== 'active' && (
            <span class="muted">{why === undefined ? stateHints[state] : <Text value={why} max={120} />}</span>
          )}
        </span>
      ),
    },
    { label: 'Issuer', from: 'desktop', width: '14rem', cell: ({ issuer }) => <Text value={issuer} max={60} /> },
    { label: 'Scopes', from: 'desktop', width: '10rem', cell: ({ scopes }) => <Names values={scopes} none="None" /> },
    { label: 'Logged in', from: 'tablet', width: '8rem', cell: ({ madeAt }) => <Ago at={madeAt} /> },
    {
      label: 'Token expires',
      from: 'tablet',
      width: '8rem',
      cell: ({ expiresAt }) =>
        expiresAt === undefined ? <span class="muted">not said</span> : <Until at={expiresAt} />,
    },
  ];
  if (!isAdmin.value) return columns;
  return [
    ...columns,
    {
      label: 'Actions',
      width: '14rem',
      cell: (login) => {
        const name = makeVisible(`${login.userId} at ${login.server}`);
        return (
          <Actions isRow>
            <Button
              label={`Log in again: ${name}`}
              onClick={() =>
                dialogs.open((close) => <StartLogin of={login} lists={lists} onDone={onDone} onClose={close} />)
              }
            >
              Log in again
            </Button>
            <Button
              kind="danger"
              label={`Remove login of ${name}`}
              onClick={() => dialogs.open((close) => <RemoveLogin of={login} onDone={onDone} onClose={close} />)}
            >
              Remove
            </Button>
          </Actions>
        );
      },
    },
  ];
}
