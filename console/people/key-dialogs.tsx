import { useSignal } from '@preact/signals';
import { useRef } from 'preact/hooks';
import { type AnswerOf, request } from '../api/request.ts';
import { ActionDialog } from '../parts/dialog.tsx';
import { ChoiceField, NamesField, parseNames, TextField } from '../parts/fields.tsx';
import { plural } from '../parts/format.ts';
import { Notice } from '../parts/notice.tsx';
import { makeVisible } from '../parts/text.tsx';
import { useWorkspaceNames } from '../parts/use-workspaces.ts';
import { describeCeiling, type Key } from './lists.ts';
import { SecretDialog } from './secret-dialog.tsx';
import type { PeopleDialogProps } from './user-dialogs.tsx';

type MintedKey = AnswerOf<'POST /api/v1/keys'>;

/**
 * Keeps a new key from the answer until its dialog closes. The dialog of the action may be closed while the request runs;
 * the key is shown all the same, because it cannot be shown later.
 */
function useMintedKey(onClose: () => void, onDone: (result: string) => void) {
  const minted = useSignal<MintedKey | undefined>(undefined);
  const isRunning = useRef(false);
  const isLeft = useRef(false);
  return {
    minted,
    async mint(ask: () => Promise<MintedKey>): Promise<void> {
      isRunning.current = true;
      try {
        minted.value = await ask();
      } catch (error) {
        if (isLeft.current) onClose();
        throw error;
      } finally {
        isRunning.current = false;
      }
    },
    leave() {
      isLeft.current = true;
      if (!isRunning.current && minted.peek() === undefined) onClose();
    },
    forget(result: string) {
      minted.value = undefined;
      onClose();
      onDone(result);
    },
  };
}

const lives = [
  ['', 'Never'],
  ['43200', 'In 12 hours'],
  ['86400', 'In 1 day'],
  ['604800', 'In 7 days'],
  ['2592000', 'In 30 days'],
  ['7776000', 'In 90 days'],
  ['31536000', 'In 1 year'],
  ['date', 'On a date…'],
] as const;

/** Reads the chosen life in seconds; undefined for a key without end. A date is the last day, in UTC. */
function readLife(choice: string, date: string): number | undefined {
  if (choice === '') return undefined;
  if (choice !== 'date') return Number(choice);
  return Math.floor((Date.parse(`${date}T23:59:59.999Z`) - Date.now()) / 1000);
}

export function CreateKey({ lists, userId = '', onDone, onClose }: PeopleDialogProps) {
  const { minted, mint, leave, forget } = useMintedKey(onClose, onDone);
  const user = useSignal(userId);
  const trustLevel = useSignal('direct');
  const workspaces = useSignal('');
  const scopes = useSignal('');
  const life = useSignal('2592000');
  const date = useSignal('');
  const knownWorkspaces = useWorkspaceNames();
  const keys = lists.keys.answer.value?.keys ?? [];
  const users = lists.users.answer.value?.users.map(({ name }) => name) ?? [];
  const name = user.value.trim();
  const hasOtherUsers = name !== '' && keys.some(({ state, userId: holder }) => state === 'active' && holder !== name);
  if (minted.value !== undefined) {
    const { key: secret, ...of } = minted.value;
    return (
      <SecretDialog
        title="New key"
        of={of}
        secret={secret}
        onClose={() => forget(`The key ${of.id.slice(0, 8)} of ${of.userId} is created: ${describeCeiling(of)}.`)}
      />
    );
  }
  const create = () => {
    const [places, permissions] = [parseNames(workspaces.value), parseNames(scopes.value)];
    return request('POST /api/v1/keys', {
      body: {
        userId: user.value.trim(),
        trustLevel: trustLevel.value,
        workspaces: places.length === 0 ? undefined : places,
        scopes: permissions.length === 0 ? undefined : permissions,
        lifeSeconds: readLife(life.value, date.value),
      },
    });
  };
  return (
    <ActionDialog
      title="Create key"
      action="Create key"
      canRun={user.value.trim() !== '' && (life.value !== 'date' || date.value !== '')}
      onRun={() => mint(create)}
      onClose={leave}
    >
      <TextField label="User" value={user} isRequired known={users} hint="The key opens sessions of this user." />
      {hasOtherUsers && (
        <Notice tone="warn">
          Another user has a key too. Once several users have keys, no new session gets trust level direct, unless the
          configuration has <code>sessions.allowDirect: always</code>.
        </Notice>
      )}
      <div class="field-row">
        <ChoiceField
          label="Trust ceiling"
          value={trustLevel}
          hint="The highest trust level of its sessions."
          options={[
            ['direct', 'direct'],
            ['sandboxed', 'sandboxed'],
          ]}
        />
        <ChoiceField label="Expires" value={life} options={lives} />
        {life.value === 'date' && (
          <TextField
            label="Last day"
            type="date"
            value={date}
            isRequired
            min={new Date().toISOString().slice(0, 10)}
            hint="Until the end of this day, UTC."
          />
        )}
      </div>
      <NamesField
        label="Workspaces"
        value={workspaces}
        known={knownWorkspaces}
        hint="Workspaces that the key may use. Empty: all."
      />
      <NamesField
        label="Scopes"
        value={scopes}
        known={[...new Set(keys.flatMap((key) => key.scopes ?? []))].sort()}
        hint="The permissions that its sessions get, such as notes:write. The key cannot use sessions that have others. If you name none, its sessions get no permissions, and it can use sessions whatever their permissions are."
      />
    </ActionDialog>
  );
}

type KeyDialogProps = PeopleDialogProps & { readonly of: Key };

export function RotateKey({ of, onDone, onClose }: KeyDialogProps) {
  const { minted, mint, leave, forget } = useMintedKey(onClose, onDone);
  const overlap = useSignal('0');
  const short = of.id.slice(0, 8);
  if (minted.value !== undefined) {
    const { key: secret, ...fresh } = minted.value;
    return (
      <SecretDialog
        title="New secret of the key"
        of={fresh}
        secret={secret}
        onClose={() => forget(`The key ${short} of ${of.userId} has a new secret.`)}
      />
    );
  }
  const rotate = () =>
    request('POST /api/v1/keys/{id}/rotate', { id: of.id, body: { overlapSeconds: Number(overlap.value) } });
  return (
    <ActionDialog title="Rotate key" action={`Rotate key ${short}`} onRun={() => mint(rotate)} onClose={leave}>
      <p>
        The key <code>{short}</code> of {makeVisible(of.userId)} gets a new secret. Its id and its limits stay the same.
      </p>
      <ChoiceField
        label="The old secret stops"
        value={overlap}
        hint="Give clients time to change to the new secret."
        options={[
          ['0', 'At once'],
          ['600', 'In 10 minutes'],
          ['3600', 'In 1 hour'],
          ['86400', 'In 24 hours'],
          ['604800', 'In 7 days'],
        ]}
      />
    </ActionDialog>
  );
}

export function RevokeKey({ of, onDone, onClose }: KeyDialogProps) {
  // The list and the commands show the beginning of the id.
  const short = of.id.slice(0, 8);
  const revoke = async () => {
    const { sessions } = await request('DELETE /api/v1/keys/{id}', { id: of.id });
    onDone(`The key ${short} of ${of.userId} is revoked. ${plural(sessions, 'session')} ended.`);
  };
  return (
    <ActionDialog
      title="Revoke key"
      action={`Revoke key ${short}`}
      name={short}
      isDanger
      onRun={revoke}
      onClose={onClose}
    >
      <Notice tone="warn">
        The key of {makeVisible(of.userId)} becomes invalid permanently, and the sessions that were opened with it end.
      </Notice>
    </ActionDialog>
  );
}
