import { useSignal } from '@preact/signals';
import { type AnswerOf, request } from '../api/request.ts';
import { hrefOf } from '../frame/route.ts';
import { Badge } from '../parts/badge.tsx';
import { Button } from '../parts/button.tsx';
import { ActionDialog } from '../parts/dialog.tsx';
import { ErrorNotice, Notice } from '../parts/notice.tsx';
import { Lines, makeVisible, Text } from '../parts/text.tsx';
import { requireReload } from './require-reload.ts';

type Import = AnswerOf<'POST /api/v1/servers/import'>;

interface ImportServersDialogProps {
  readonly onClose: () => void;
  /** Called with the names of the new servers. */
  readonly onDone: (names: readonly string[]) => Promise<void>;
}

const example =
  '{ "mcpServers": { "everything": { "command": "npx", "args": ["-y", "@modelcontextprotocol/server-everything"] } } }';

/** Takes a pasted block of servers, shows what would change, and adds them. */
export function ImportServersDialog({ onClose, onDone }: ImportServersDialogProps) {
  const text = useSignal('');
  const plan = useSignal<Import | undefined>(undefined);
  const error = useSignal<Error | undefined>(undefined);
  const preview = async () => {
    const shown = text.value;
    // A plan for an earlier text must not stand beside the button that adds the present one.
    const isCurrent = () => text.peek() === shown;
    error.value = undefined;
    try {
      const answer = await request('POST /api/v1/servers/import', { body: { text: shown, dryRun: true } });
      if (isCurrent()) plan.value = answer;
    } catch (failure) {
      if (isCurrent()) error.value = failure as Error;
    }
  };
  const added = plan.value?.plan.filter(({ action }) => action === 'add').length ?? 0;
  return (
    <ActionDialog
      title="Import servers"
      action={added === 0 ? 'Add the servers' : `Add ${added} ${added === 1 ? 'server' : 'servers'}`}
      isWide
      canRun={added > 0}
      onClose={onClose}
      onRun={async () => {
        const edit = await request('POST /api/v1/servers/import', { body: { text: text.value } });
        requireReload(edit);
        await onDone(edit.plan.filter(({ action }) => action === 'add').map(({ name }) => name));
      }}
    >
      <label class="field">
        <span>Paste the mcpServers block of another client</span>
        <textarea
          class="mono"
          rows={10}
          value={text.value}
          placeholder={example}
          spellcheck={false}
          onInput={({ currentTarget }) => {
            text.value = currentTarget.value;
            plan.value = undefined;
            error.value = undefined;
          }}
        />
      </label>
      <div>
        <Button disabled={text.value.trim() === ''} onClick={() => void preview()}>
          Show what changes
        </Button>
      </div>
      {error.value !== undefined && <ErrorNotice error={error.value} />}
      {plan.value !== undefined && <Plan plan={plan.value} text={text.value} />}
    </ActionDialog>
  );
}

/** Names the values that the gateway hides as secrets. One that only names a variable is none. */
function findSecrets({ diff }: Import, text: string): string[] {
  const hidden = diff.flatMap((line) => /^\+\s+"?([^\s":]+)"?: "?…"?,?$/.exec(line)?.[1] ?? []);
  const named = [...new Set(hidden)].filter((name) => !text.replaceAll(/\s/g, '').includes(`"${name}":"\${`));
  return diff.some((line) => /^\+\s+"?args"?: .*…/.test(line)) ? [...named, 'an argument'] : named;
}

function Plan({ plan, text }: { readonly plan: Import; readonly text: string }) {
  const secrets = findSecrets(plan, text);
  return (
    <>
      <ul class="server-tools">
        {plan.plan.map(({ name, action, reason }) => (
          <li key={name}>
            {makeVisible(name)}{' '}
            <Badge tone={action === 'add' ? 'good' : 'plain'}>{action === 'add' ? 'is added' : 'stays as it is'}</Badge>{' '}
            {reason !== null && <Text value={reason} />}
          </li>
        ))}
      </ul>
      {plan.problems.map((problem) => (
        <Notice key={problem} tone="warn">
          <Text value={problem} />
        </Notice>
      ))}
      {secrets.length > 0 && (
        <Notice tone="warn">
          <p>
            These look like secrets: {makeVisible(secrets.join(', '))}. They would be plain text in the configuration
            file. Leave them out here, and store them encrypted for each user under{' '}
            <a href={hrefOf(['people'], { tab: 'credentials' })}>Credentials</a>.
          </p>
        </Notice>
      )}
      {plan.diff.length > 0 && <Lines value={plan.diff.join('\n')} max={Number.POSITIVE_INFINITY} />}
      <Notice>Imported servers start only after you have reviewed and approved each of them.</Notice>
    </>
  );
}
