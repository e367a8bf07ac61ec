import { useEffect } from 'preact/hooks';
import { hrefOf, readQuery } from '../frame/route.ts';
import { Badge } from '../parts/badge.tsx';
import { Button } from '../parts/button.tsx';
import { View } from '../parts/card.tsx';
import { hideResult, showResult } from '../parts/result.tsx';
import { Tabs } from '../parts/tabs.tsx';
import { makeVisible, Text } from '../parts/text.tsx';
import { type DialogHost, useDialog } from '../parts/use-dialog.ts';
import { isAdmin } from '../sign-in/signed-in.ts';
import { SetCredential } from './credential-dialogs.tsx';
import { CredentialsTab } from './credentials-tab.tsx';
import { CreateKey } from './key-dialogs.tsx';
import { KeysTab } from './keys-tab.tsx';
import { type PeopleLists, reloadLists, usePeopleLists } from './lists.ts';
import { StartLogin } from './login-dialogs.tsx';
import { LoginsTab } from './logins-tab.tsx';
import { AddUser } from './user-dialogs.tsx';
import { UsersTab } from './users-tab.tsx';
import './people.css';

/** A part of the view with everything that it shows and can do. */
export interface PeopleTabProps {
  readonly lists: PeopleLists;
  readonly dialogs: DialogHost;
  /** Shows the result of an action and reads all lists again. */
  readonly onDone: (result: string) => void;
}

const tabs = [
  {
    name: 'users',
    label: 'Users',
    countOf: ({ users }: PeopleLists) => users.answer.value?.users.length,
    Content: UsersTab,
    action: 'Add user',
    Action: AddUser,
  },
  {
    name: 'keys',
    label: 'Keys',
    countOf: ({ keys }: PeopleLists) => keys.answer.value?.keys.length,
    Content: KeysTab,
    action: 'Create key',
    Action: CreateKey,
  },
  {
    name: 'credentials',
    label: 'Credentials',
    countOf: ({ credentials }: PeopleLists) => credentials.answer.value?.credentials.length,
    Content: CredentialsTab,
    action: 'Set credential',
    Action: SetCredential,
  },
  {
    name: 'logins',
    label: 'Logins',
    countOf: ({ logins }: PeopleLists) => logins.answer.value?.logins.length,
    Content: LoginsTab,
    action: 'Start login',
    Action: StartLogin,
  },
] as const;

/** Users and teams, their keys, and their credentials and logins for servers. */
export function People() {
  const lists = usePeopleLists();
  const dialogs = useDialog();
  const user = readQuery('user');
  const shown = tabs.find(({ name }) => name === readQuery('tab')) ?? tabs[0];
  useEffect(() => {
    hideResult();
  }, [shown.name]);
  const onDone = (text: string) => {
    showResult(makeVisible(text));
    void reloadLists(lists);
  };
  const organisation = lists.users.answer.value?.organisation ?? null;
  return (
    <View
      title="People and keys"
      aside={
        <>
          {organisation !== null && <Text value={organisation} max={60} />}
          {!isAdmin.value && <Badge>Read only: your role is viewer</Badge>}
        </>
      }
      actions={
        isAdmin.value && (
          <Button
            kind="primary"
            onClick={() =>
              dialogs.open((close) => <shown.Action lists={lists} userId={user} onDone={onDone} onClose={close} />)
            }
          >
            {shown.action}
          </Button>
        )
      }
    >
      <Tabs
        label="People and keys"
        current={shown.name}
        tabs={tabs.map(({ name, label, countOf }) => {
          const count = countOf(lists);
          return {
            name,
            label,
            href: hrefOf(['people'], { tab: name, user }),
            ...(count === undefined ? {} : { count }),
          };
        })}
      />
      <shown.Content lists={lists} dialogs={dialogs} onDone={onDone} />
      {dialogs.element}
    </View>
  );
}
