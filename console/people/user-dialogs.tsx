import { useSignal } from '@preact/signals';
import { request } from '../api/request.ts';
import { useRequest } from '../api/use-request.ts';
import { ActionDialog } from '../parts/dialog.tsx';
import { NamesField, parseNames, TextField } from '../parts/fields.tsx';
import { plural } from '../parts/format.ts';
import { Notice } from '../parts/notice.tsx';
import { Text } from '../parts/text.tsx';
import type { PeopleLists, User } from './lists.ts';

/** What every dialog of this view gets. */
export interface PeopleDialogProps {
  readonly lists: PeopleLists;
  /** The user that the view is about; empty if it is about all. */
  readonly userId?: string;
  readonly onDone: (result: string) => void;
  readonly onClose: () => void;
}

const teamHint =
  'Names, separated by commas. A team exists while it has members. The order matters: if policies of the same name ' +
  'come from several teams, the first team wins.';

function useTeamNames(): readonly string[] {
  const teams = useRequest('GET /api/v1/teams');
  return teams.answer.value?.teams.map(({ name }) => name) ?? [];
}

export function AddUser({ lists, onDone, onClose }: PeopleDialogProps) {
  const name = useSignal('');
  const teams = useSignal('');
  const known = useTeamNames();
  const wanted = name.value.trim();
  const add = async () => {
    const isNew = lists.users.answer.peek()?.users.some((user) => user.name === wanted) !== true;
    const user = await request('POST /api/v1/users', { body: { name: wanted, teams: parseNames(teams.value) } });
    const teamsNow = user.teams.length === 0 ? 'no team' : user.teams.join(', ');
    onDone(`${user.name} ${isNew ? 'was added' : 'was a user already'}. The user is in ${teamsNow}.`);
  };
  return (
    <ActionDialog title="Add user" action="Add user" canRun={wanted !== ''} onRun={add} onClose={onClose}>
      <TextField
        label="Name"
        value={name}
        isRequired
        maxLength={128}
        hint="The name of a person or a program. A user who exists already is added to the teams."
      />
      <NamesField label="Teams" value={teams} known={known} hint={teamHint} />
    </ActionDialog>
  );
}

export function ChangeTeams({ user, onDone, onClose }: PeopleDialogProps & { readonly user: User }) {
  const teams = useSignal(user.teams.join(', '));
  const known = useTeamNames();
  const change = async () => {
    const changed = await request('PATCH /api/v1/users/{id}', {
      id: user.name,
      body: { teams: parseNames(teams.value) },
    });
    onDone(`${user.name} is now in ${changed.teams.length === 0 ? 'no team' : changed.teams.join(', ')}.`);
  };
  return (
    <ActionDialog title="Change teams" action={`Save teams of ${user.name}`} onRun={change} onClose={onClose}>
      <p>
        Policies and objectives of these teams apply to <Text value={user.name} />.
      </p>
      <NamesField label="Teams" value={teams} known={known} hint={teamHint} />
    </ActionDialog>
  );
}

type RemoveUserProps = Pick<PeopleDialogProps, 'onDone' | 'onClose'> & { readonly user: User };

export function RemoveUser({ user, onDone, onClose }: RemoveUserProps) {
  const remove = async () => {
    const { keys, sessions } = await request('DELETE /api/v1/users/{id}', { id: user.name });
    onDone(`The user ${user.name} is removed. ${plural(keys, 'key')} revoked, ${plural(sessions, 'session')} ended.`);
  };
  return (
    <ActionDialog
      title="Remove user"
      action={`Remove user ${user.name}`}
      name={user.name}
      isDanger
      onRun={remove}
      onClose={onClose}
    >
      <Notice tone="warn">
        All keys of this user are revoked and the sessions that were opened with them end. The credentials and logins of
        the user are deleted. This cannot be undone: a user who is added later under this name is a new user.
      </Notice>
    </ActionDialog>
  );
}
