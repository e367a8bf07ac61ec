import { useSignal } from '@preact/signals';
import { useId } from 'preact/hooks';
import { request } from '../../api/request.ts';
import { useRequest } from '../../api/use-request.ts';
import { ActionDialog } from '../../parts/dialog.tsx';
import { formatDuration } from '../../parts/format.ts';
import { makeVisible } from '../../parts/text.tsx';
import type { SessionDetails } from '../session-view.tsx';

interface RestrictDialogProps {
  readonly details: SessionDetails;
  readonly onClose: () => void;
  readonly onDone: () => Promise<void>;
}

const units = [
  ['seconds', 1],
  ['minutes', 60],
  ['hours', 3600],
] as const;

/** Writes a time in the largest unit that gives a whole number. */
function splitTime(seconds: number): { readonly amount: string; readonly unit: number } {
  const unit = units.findLast(([, size]) => seconds % size === 0)?.[1] ?? 1;
  return { amount: String(seconds / unit), unit };
}

/** Narrows a session. Everything starts as it is now, and can only be taken away. */
export function RestrictDialog({ details, onClose, onDone }: RestrictDialogProps) {
  const { id, trustLevel, ttlSeconds, permissions } = details;
  const name = details.name ?? id;
  const context = useRequest('GET /api/v1/sessions/{id}/context', { id });
  const available = context.answer.value?.servers.filter((server) => server.available).map((server) => server.name);
  const trust = useSignal(trustLevel);
  const start = splitTime(ttlSeconds);
  const amount = useSignal(start.amount);
  const unit = useSignal(start.unit);
  const ttl = amount.value.trim() === '' ? Number.NaN : Math.round(Number(amount.value) * unit.value);
  const isTtlWrong = !(ttl >= 1 && ttl <= ttlSeconds);
  const ttlHint = useId();
  const keptServers = useSignal<readonly string[] | undefined>(undefined);
  const keptPermissions = useSignal<readonly string[]>(permissions);
  const shownServers = keptServers.value ?? available ?? [];
  const change = {
    ...(trust.value === trustLevel ? {} : { trustLevel: trust.value }),
    ...(ttl === ttlSeconds ? {} : { ttlSeconds: ttl }),
    ...(keptServers.value === undefined ? {} : { servers: [...keptServers.value] }),
    ...(keptPermissions.value.length === permissions.length ? {} : { permissions: [...keptPermissions.value] }),
  };
  return (
    <ActionDialog
      title="Restrict the session"
      name={name}
      action={`Restrict ${name}`}
      canRun={Object.keys(change).length > 0 && !isTtlWrong}
      hasFields
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
      <fieldset class="field field-time">
        <legend>Ends after this time without a call</legend>
        <input
          type="number"
          aria-label="Time without a call"
          aria-describedby={ttlHint}
          aria-invalid={isTtlWrong}
          min={1}
          value={amount.value}
          onInput={({ currentTarget }) => {
            amount.value = currentTarget.value;
          }}
        />
        <select
          aria-label="Unit of the time"
          value={unit.value}
          onChange={({ currentTarget }) => {
            unit.value = Number(currentTarget.value);
          }}
        >
          {units.map(([label, size]) => (
            <option key={label} value={size} selected={size === unit.value}>
              {label}
            </option>
          ))}
        </select>
        <p id={ttlHint} class={isTtlWrong ? 'field-hint field-error' : 'field-hint'}>
          The time can only become shorter: it is {formatDuration(ttlSeconds * 1000)} now.
        </p>
      </fieldset>
      <Choices
        legend="Servers that it keeps"
        all={available ?? []}
        kept={shownServers}
        onChange={(kept) => {
          keptServers.value = kept;
        }}
      />
      {permissions.length === 0 && <p class="muted">The session has no permissions that you could take away.</p>}
      <Choices
        legend="Permissions that it keeps"
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
