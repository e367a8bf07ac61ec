import { useSignal } from '@preact/signals';
import { request } from '../../api/request.ts';
import { useRequest } from '../../api/use-request.ts';
import { ActionDialog } from '../../parts/dialog.tsx';
import { makeVisible } from '../../parts/text.tsx';
import type { SessionDetails } from '../session-view.tsx';

interface RestrictDialogProps {
  readonly details: SessionDetails;
  readonly onClose: () => void;
  readonly onDone: () => Promise<void>;
}

/** Narrows a session. Everything starts as it is now, and can only be taken away. */
export function RestrictDialog({ details, onClose, onDone }: RestrictDialogProps) {
  const { id, trustLevel, ttlSeconds, permissions, servers } = details;
  const name = details.name ?? id;
  const context = useRequest('GET /api/v1/sessions/{id}/context', { id });
  const available = context.answer.value?.servers.filter((server) => server.available).map((server) => server.name);
  const trust = useSignal(trustLevel);
  const ttl = useSignal(String(ttlSeconds));
  const keptServers = useSignal<readonly string[] | undefined>(undefined);
  const keptPermissions = useSignal<readonly string[]>(permissions);
  const shownServers = keptServers.value ?? available ?? [];
  const change = {
    ...(trust.value === trustLevel ? {} : { trustLevel: trust.value }),
    ...(Number(ttl.value) === ttlSeconds || ttl.value === '' ? {} : { ttlSeconds: Number(ttl.value) }),
    ...(keptServers.value === undefined ? {} : { servers: [...keptServers.value] }),
    ...(keptPermissions.value.length === permissions.length ? {} : { permissions: [...keptPermissions.value] }),
  };
  return (
    <ActionDialog
      title="Restrict the session"
      name={name}
      action={`Restrict ${name}`}
      canRun={Object.keys(change).length > 0}
      onClose={onClose}
      onRun={async () => {
        await request('PATCH /api/v1/sessions/{id}', { id, body: change });
        await onDone();
      }}
    >
      <p>A session can only be restricted. What you take away cannot be given back.</p>
      <label class="field">
        <span>Trust level</span>
        <select
          value={trust.value}
          disabled={trustLevel === 'sandboxed'}
          onChange={({ currentTarget }) => {
            trust.value = currentTarget.value as typeof trustLevel;
          }}
        >
          {trustLevel === 'direct' && <option value="direct">direct</option>}
          <option value="sandboxed">sandboxed</option>
        </select>
      </label>
      <label class="field">
        <span>Ends after so many seconds without a call</span>
        <input
          type="number"
          min={1}
          max={ttlSeconds}
          value={ttl.value}
          onInput={({ currentTarget }) => {
            ttl.value = currentTarget.value;
          }}
        />
      </label>
      <Choices
        legend={servers === null ? 'Servers (all that are available now)' : 'Servers'}
        all={available ?? []}
        kept={shownServers}
        onChange={(kept) => {
          keptServers.value = kept;
        }}
      />
      <Choices
        legend="Permissions"
        all={permissions}
        kept={keptPermissions.value}
        onChange={(kept) => {
          keptPermissions.value = kept;
        }}
      />
    </ActionDialog>
  );
}

interface ChoicesProps {
  readonly legend: string;
  readonly all: readonly string[];
  readonly kept: readonly string[];
  readonly onChange: (kept: readonly string[]) => void;
}

function Choices({ legend, all, kept, onChange }: ChoicesProps) {
  if (all.length === 0) return null;
  return (
    <fieldset class="choices">
      <legend>{legend}</legend>
      {all.map((each) => (
        <label key={each} class="choice">
          <input
            type="checkbox"
            checked={kept.includes(each)}
            onChange={({ currentTarget }) =>
              onChange(currentTarget.checked ? [...kept, each] : kept.filter((other) => other !== each))
            }
          />
          {makeVisible(each)}
        </label>
      ))}
    </fieldset>
  );
}
