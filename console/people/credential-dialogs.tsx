import { useSignal } from '@preact/signals';
import { request } from '../api/request.ts';
import { useRequest } from '../api/use-request.ts';
import { ActionDialog } from '../parts/dialog.tsx';
import { ChoiceField, TextField } from '../parts/fields.tsx';
import { Notice } from '../parts/notice.tsx';
import { Text } from '../parts/text.tsx';
import { type Credential, listUserNames } from './lists.ts';
import type { PeopleDialogProps } from './user-dialogs.tsx';

/** Stores a credential. The value is only in this field and in the request. */
export function SetCredential({
  lists,
  userId = '',
  of,
  onDone,
  onClose,
}: PeopleDialogProps & { readonly of?: Credential }) {
  const user = useSignal(of?.userId ?? userId);
  const server = useSignal(of?.server ?? '');
  const kind = useSignal(of?.header === undefined ? 'env' : 'header');
  const name = useSignal(of?.env ?? of?.header ?? '');
  const value = useSignal('');
  const servers = useRequest('GET /api/v1/servers').answer.value?.servers ?? [];
  const transport = servers.find((each) => each.name === server.value.trim())?.transport;
  // The kind follows from the transport of a known server.
  const isHeader = transport === undefined ? kind.value === 'header' : transport !== 'stdio';
  const store = async () => {
    const which = isHeader ? { header: name.value.trim() } : { env: name.value.trim() };
    const set = await request('POST /api/v1/credentials', {
      body: { userId: user.value.trim(), server: server.value.trim(), ...which, value: value.value },
    });
    value.value = '';
    onDone(
      `The credential of ${set.userId} for ${set.server} is stored. Processes and connections that used an earlier value end.`,
    );
  };
  const isComplete = [user, server, name].every((field) => field.value.trim() !== '') && value.value !== '';
  const isFixed = of !== undefined;
  return (
    <ActionDialog
      title={isFixed ? 'Replace credential' : 'Set credential'}
      action="Store credential"
      canRun={isComplete}
      onRun={store}
      onClose={onClose}
    >
      <div class="field-row">
        <TextField label="User" value={user} isRequired isFixed={isFixed} known={listUserNames(lists)} />
        <TextField
          label="Server"
          value={server}
          isRequired
          isFixed={isFixed}
          known={servers.map((each) => each.name)}
        />
      </div>
      <div class="field-row">
        {transport === undefined && !isFixed && (
          <ChoiceField
            label="Given as"
            value={kind}
            options={[
              ['env', 'Environment variable'],
              ['header', 'HTTP header'],
            ]}
          />
        )}
        <TextField
          label={isHeader ? 'Header' : 'Environment variable'}
          value={name}
          isRequired
          isFixed={isFixed}
          placeholder={isHeader ? 'Authorization' : 'NOTES_TOKEN'}
        />
      </div>
      <TextField
        label="Value"
        type="password"
        value={value}
        isRequired
        hint={`Ambit encrypts it and never shows it again.${isHeader ? ' For Authorization, write the whole value, including "Bearer".' : ''}`}
      />
    </ActionDialog>
  );
}

type RemoveCredentialProps = Pick<PeopleDialogProps, 'onDone' | 'onClose'> & { readonly of: Credential };

export function RemoveCredential({ of, onDone, onClose }: RemoveCredentialProps) {
  const { userId, server, env, header } = of;
  const remove = async () => {
    const { removed } = await request('DELETE /api/v1/credentials', { body: { userId, server, env, header } });
    onDone(
      removed
        ? `The credential of ${userId} for ${server} is removed.`
        : `The credential of ${userId} for ${server} had been removed already.`,
    );
  };
  return (
    <ActionDialog
      title="Remove credential"
      action="Remove credential"
      name={env ?? header}
      isDanger
      onRun={remove}
      onClose={onClose}
    >
      <p>
        The credential of <Text value={userId} /> for <Text value={server} /> is deleted.
      </p>
      <Notice tone="warn">Processes and connections that use it end within a second. Calls in progress fail.</Notice>
    </ActionDialog>
  );
}
