import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { type AnswerOf, request } from '../api/request.ts';
import { Facts } from '../parts/card.tsx';
import { Dialog } from '../parts/dialog.tsx';
import { formatMs } from '../parts/format.ts';
import { ErrorNotice, Notice } from '../parts/notice.tsx';
import { SameData } from '../parts/same-data.tsx';
import { Lines, Text } from '../parts/text.tsx';

type Check = AnswerOf<'POST /api/v1/servers/{id}/check'>;

/** Starts a server once, beside its sessions, and shows what it answers. */
export function CheckDialog({ name, onClose }: { readonly name: string; readonly onClose: () => void }) {
  const check = useSignal<Check | undefined>(undefined);
  const failure = useSignal<Error | undefined>(undefined);
  useEffect(() => {
    const controller = new AbortController();
    request('POST /api/v1/servers/{id}/check', { id: name, signal: controller.signal }).then(
      (answer) => {
        check.value = answer;
      },
      (error: unknown) => {
        if (!controller.signal.aborted) failure.value = error as Error;
      },
    );
    return () => controller.abort();
  }, [name]);
  const result = check.value;
  return (
    <Dialog title={`Check of ${name}`} onClose={onClose} isWide>
      <div class="dialog-body">
        {failure.value !== undefined && <ErrorNotice error={failure.value} />}
        {result === undefined && failure.value === undefined && (
          <p role="status">
            <span class="spinner server-spinner" aria-hidden="true" /> The server is started and asked for its tools…
          </p>
        )}
        {result !== undefined && <CheckResult check={result} />}
        <SameData
          command={`ambit server check ${name} --json`}
          path={`/api/v1/servers/${encodeURIComponent(name)}/check`}
          body="{}"
        />
      </div>
    </Dialog>
  );
}

function CheckResult({ check }: { readonly check: Check }) {
  const { error, tools, seconds, era, transport, changes, missing, unsound, stderr } = check;
  return (
    <>
      {error === null ? (
        <Notice tone="good">The server answers. It has {tools ?? 0} tools.</Notice>
      ) : (
        <Notice tone="bad">
          <strong>{error.code}</strong>
          <Lines value={error.message} max={2000} />
          <Text value={error.hint} />
        </Notice>
      )}
      <Facts
        rows={[
          ['Transport', transport],
          ['Protocol era', era ?? 'unknown'],
          ['Time to list its tools', seconds === null ? 'unknown' : formatMs(seconds * 1000)],
          ['Hidden tools', unsound === 0 ? 'none' : `${unsound}, because clients could read them in different ways`],
          ...(missing === null ? [] : [['Missing', <Text value={missing} />] as const]),
        ]}
      />
      {changes.length > 0 && (
        <Notice tone="warn">
          <strong>Tools that differ from the approved ones are hidden:</strong>
          {changes.map((change) => (
            <Text key={change} value={change} />
          ))}
        </Notice>
      )}
      {stderr.length > 0 && <Lines value={stderr.join('\n')} />}
    </>
  );
}
