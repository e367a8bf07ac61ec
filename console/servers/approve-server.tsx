import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { type AnswerOf, request } from '../api/request.ts';
import { Badge } from '../parts/badge.tsx';
import { Facts } from '../parts/card.tsx';
import { ActionDialog } from '../parts/dialog.tsx';
import { Diff } from '../parts/diff.tsx';
import { ErrorNotice, Notice } from '../parts/notice.tsx';
import { Text } from '../parts/text.tsx';
import { ServerDefinition } from './server-definition.tsx';
import { ToolParts } from './tool-parts.tsx';

type Review = AnswerOf<'POST /api/v1/servers/{id}/review'>;

interface ApproveDialogProps {
  readonly name: string;
  readonly onClose: () => void;
  readonly onDone: () => Promise<void>;
}

/** Shows everything that an approval would allow, and approves exactly that. */
export function ApproveDialog({ name, onClose, onDone }: ApproveDialogProps) {
  const review = useSignal<Review | undefined>(undefined);
  const failure = useSignal<Error | undefined>(undefined);
  useEffect(() => {
    const controller = new AbortController();
    request('POST /api/v1/servers/{id}/review', { id: name, signal: controller.signal }).then(
      (answer) => {
        review.value = answer;
      },
      (error: unknown) => {
        if (!controller.signal.aborted) failure.value = error as Error;
      },
    );
    return () => controller.abort();
  }, [name]);
  const shown = review.value;
  return (
    <ActionDialog
      title={`Review of ${name}`}
      name={name}
      action={`Approve ${name}`}
      isWide
      canRun={shown !== undefined}
      onClose={onClose}
      onRun={async () => {
        if (shown === undefined) return;
        const { definitionHash, pinsHash, toolsHash } = shown;
        await request('POST /api/v1/servers/{id}/approve', { id: name, body: { definitionHash, pinsHash, toolsHash } });
        await onDone();
      }}
    >
      {failure.value !== undefined && <ErrorNotice error={failure.value} />}
      {shown === undefined && failure.value === undefined && (
        <p role="status">
          <span class="spinner server-spinner" aria-hidden="true" /> Looking at what would run…
        </p>
      )}
      {shown !== undefined && <ReviewedServer review={shown} />}
    </ActionDialog>
  );
}

function ReviewedServer({ review }: { readonly review: Review }) {
  const { changes, definitionDiff, env, notes, tools, toolsHash } = review;
  return (
    <>
      <p>
        The approval holds for exactly this. If one of these files or tools changes, the server or the tool is refused
        again.
      </p>
      {changes.length > 0 && (
        <Notice tone="warn">
          <strong>Changed since the last approval:</strong>
          {changes.map((change) => (
            <Text key={change} value={change} />
          ))}
        </Notice>
      )}
      {definitionDiff !== null && <Diff patch={definitionDiff} isOneText label="Changes of the definition" />}
      <ServerDefinition details={review} isWhole />
      {env.length > 0 && (
        <Facts
          rows={env.map(({ name, value }) => [name, <Text value={value} max={Number.POSITIVE_INFINITY} />] as const)}
        />
      )}
      {notes.map((note) => (
        <Notice key={note} tone="warn">
          <Text value={note} />
        </Notice>
      ))}
      <h3>Tools</h3>
      {tools.length === 0 ? (
        <p class="muted">
          {toolsHash === null
            ? 'The tools are pinned when the server lists them for the first time after this approval.'
            : 'No tool differs from the approved ones.'}
        </p>
      ) : (
        <ul class="server-tools">
          {tools.map(({ tool, kind, changes: differences, parts }) => (
            <li key={tool}>
              <code>
                <Text value={tool} max={120} />
              </code>{' '}
              <Badge tone={kind === 'removed' ? 'plain' : 'warn'}>{kind}</Badge>
              {differences.map((difference) => (
                <p key={difference}>
                  <Text value={difference} />
                </p>
              ))}
              <ToolParts tool={tool} parts={parts} />
            </li>
          ))}
        </ul>
      )}
    </>
  );
}
