import { hrefOf, readQuery } from '../frame/route.ts';
import { Badge } from '../parts/badge.tsx';
import { Actions, Button } from '../parts/button.tsx';
import { Card } from '../parts/card.tsx';
import { ChoiceFilter, Filters, TextFilter } from '../parts/filters.tsx';
import { Answer, Empty, NextStep } from '../parts/notice.tsx';
import { SameData } from '../parts/same-data.tsx';
import type { Column } from '../parts/table.tsx';
import { Ago, makeVisible, Text } from '../parts/text.tsx';
import { isAdmin } from '../sign-in/signed-in.ts';
import { CreateKey } from './key-dialogs.tsx';
import { ListTable } from './list-table.tsx';
import { listUserNames, selectByName, type User } from './lists.ts';
import { Names } from './names.tsx';
import type { PeopleTabProps } from './people.tsx';
import { ChangeTeams, RemoveUser } from './user-dialogs.tsx';

/** The users with their teams. */
export function UsersTab(props: PeopleTabProps) {
  const { lists } = props;
  return (
    <>
      <Filters>
        <TextFilter name="user" label="User" placeholder="Any" known={listUserNames(lists)} />
        <TextFilter name="team" label="Team" placeholder="Any" known={listTeams(lists.users.answer.value?.users)} />
        <ChoiceFilter
          name="source"
          label="Source"
          options={[
            ['', 'All'],
            ['added', 'Added'],
            ['configuration', 'Configuration'],
          ]}
        />
      </Filters>
      <Answer of={lists.users}>
        {({ users }) =>
          users.length === 0 ? (
            <Card>
              <Empty title="There are no users yet.">
                A user is a person or a program that can have keys.{' '}
                <NextStep button="Add user" command="ambit user add ada --team core" />
              </Empty>
            </Card>
          ) : (
            <ListTable
              tab="users"
              caption="Users"
              noun="users"
              rows={selectUsers(users)}
              keyOf={({ name }) => name}
              columns={listColumns(props)}
            />
          )
        }
      </Answer>
      <SameData command="ambit user list --json" path="/api/v1/users" />
    </>
  );
}

function listTeams(users: readonly User[] = []): string[] {
  return [...new Set(users.flatMap(({ teams }) => teams))].sort();
}

function selectUsers(users: readonly User[]): readonly User[] {
  const [team, source] = [readQuery('team').toLowerCase(), readQuery('source')];
  return selectByName(users, ({ name }) => name, readQuery('user')).filter(
    ({ teams, declared }) =>
      (team === '' || teams.some((each) => each.toLowerCase().includes(team))) &&
      (source === '' || (source === 'configuration') === declared),
  );
}

function listColumns({ lists, dialogs, onDone }: PeopleTabProps): Column<User>[] {
  const keys = lists.keys.answer.value?.keys ?? [];
  const columns: Column<User>[] = [
    {
      label: 'User',
      isTitle: true,
      width: '14rem',
      cell: ({ name, declared }) => (
        <span class="people-name">
          <a href={hrefOf(['sessions'], { user: name })} aria-label={`Sessions of ${makeVisible(name)}`}>
            <Text value={name} max={130} />
          </a>
          {declared && <Badge tone="info">in the configuration</Badge>}
        </span>
      ),
    },
    { label: 'Teams', width: '14rem', cell: ({ teams }) => <Names values={teams} none="No teams" /> },
    {
      label: 'Keys',
      from: 'tablet',
      width: '7rem',
      cell: ({ name }) => {
        const active = keys.filter(({ userId, state }) => userId === name && state === 'active').length;
        return (
          <a
            class="nowrap"
            href={hrefOf(['people'], { tab: 'keys', user: name })}
            aria-label={`Keys of ${makeVisible(name)}: ${active} active`}
          >
            {active} active
          </a>
        );
      },
    },
    {
      label: 'Added',
      from: 'desktop',
      width: '8rem',
      cell: ({ createdAt }) =>
        createdAt === null ? <span class="muted nowrap">in the file</span> : <Ago at={createdAt} />,
    },
    {
      label: 'Records',
      from: 'tablet',
      width: '7rem',
      cell: ({ name }) => (
        <a href={hrefOf(['journal'], { user: name })} aria-label={`Journal of ${makeVisible(name)}`}>
          Journal
        </a>
      ),
    },
  ];
  if (!isAdmin.value) return columns;
  return [
    ...columns,
    {
      label: 'Actions',
      width: '19rem',
      cell: (user) => {
        const name = makeVisible(user.name);
        const inFile = user.declared
          ? '. The user is declared in the configuration and can only be changed there.'
          : '';
        const openTeams = () =>
          dialogs.open((close) => <ChangeTeams user={user} lists={lists} onDone={onDone} onClose={close} />);
        const openRemoval = () => dialogs.open((close) => <RemoveUser user={user} onDone={onDone} onClose={close} />);
        return (
          <div class="people-actions" title={inFile.slice(2)}>
            <Actions isRow>
              <Button
                label={`Create key for ${name}`}
                onClick={() =>
                  dialogs.open((close) => (
                    <CreateKey lists={lists} userId={user.name} onDone={onDone} onClose={close} />
                  ))
                }
              >
                Create key
              </Button>
              <Button label={`Change teams of ${name}${inFile}`} disabled={user.declared} onClick={openTeams}>
                Teams
              </Button>
              <Button
                kind="danger"
                label={`Remove user ${name}${inFile}`}
                disabled={user.declared}
                onClick={openRemoval}
              >
                Remove
              </Button>
            </Actions>
          </div>
        );
      },
    },
  ];
}
