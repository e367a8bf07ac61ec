import { useSignal } from '@preact/signals';
import { request } from '../api/request.ts';
import { ActionDialog } from '../parts/dialog.tsx';
import { Notice } from '../parts/notice.tsx';
import { makeVisible } from '../parts/text.tsx';
import { requireReload } from './require-reload.ts';
import { splitCommand } from './split-command.ts';

interface AddServerDialogProps {
  readonly onClose: () => void;
  /** Called with the name of the new server. */
  readonly onDone: (names: readonly string[]) => Promise<void>;
}

const namePattern = /^[a-z0-9-]{1,40}$/;

/** Adds a server to the configuration file. It needs an approval before it starts. */
export function AddServerDialog({ onClose, onDone }: AddServerDialogProps) {
  const name = useSignal('');
  const kind = useSignal<'command' | 'url'>('command');
  const target = useSignal('');
  const words = splitCommand(target.value);
  const isReady =
    namePattern.test(name.value) &&
    (kind.value === 'url' ? target.value !== '' : words !== undefined && words.length > 0);
  const isNameWrong = name.value !== '' && !namePattern.test(name.value);
  const body = () => {
    const [command = '', ...args] = words ?? [];
    return kind.value === 'url' ? { name: name.value, url: target.value.trim() } : { name: name.value, command, args };
  };
  return (
    <ActionDialog
      title="Add a server"
      action={`Add ${name.value}`}
      canRun={isReady}
      onClose={onClose}
      onRun={async () => {
        const edit = await request('POST /api/v1/servers', { body: body() });
        requireReload(edit);
        await onDone([name.value]);
      }}
    >
      <label class="field">
        <span>Name</span>
        <input
          value={name.value}
          aria-invalid={isNameWrong}
          autocomplete="off"
          spellcheck={false}
          onInput={({ currentTarget }) => {
            name.value = currentTarget.value;
          }}
        />
        <span class={isNameWrong ? 'field-hint field-error' : 'field-hint'}>
          {isNameWrong && 'This name cannot be used: '}1 to 40 characters of a-z, 0-9 and "-".
        </span>
      </label>
      <label class="field">
        <span>Kind</span>
        <select
          value={kind.value}
          onChange={({ currentTarget }) => {
            kind.value = currentTarget.value as 'command' | 'url';
          }}
        >
          <option value="command">a program that is started (stdio)</option>
          <option value="url">a URL (HTTP)</option>
        </select>
      </label>
      <label class="field">
        <span>{kind.value === 'url' ? 'URL' : 'Command'}</span>
        <input
          value={target.value}
          autocomplete="off"
          spellcheck={false}
          placeholder={
            kind.value === 'url' ? 'https://example.com/mcp' : 'npx -y @modelcontextprotocol/server-everything'
          }
          onInput={({ currentTarget }) => {
            target.value = currentTarget.value;
          }}
        />
        {kind.value === 'command' && (
          <span class="field-hint">
            {words === undefined
              ? 'A quotation mark is not closed.'
              : words.length === 0
                ? 'Quote words with blanks. No shell runs it.'
                : `Runs: ${words.map((word) => `[${makeVisible(word)}]`).join(' ')}`}
          </span>
        )}
      </label>
      <Notice>
        The server is written to the configuration file. It starts only after you have reviewed and approved it.
      </Notice>
    </ActionDialog>
  );
}
