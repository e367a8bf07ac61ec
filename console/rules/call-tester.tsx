import { effect, signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { pathOf } from '../api/request.ts';
import { useRequest } from '../api/use-request.ts';
import { readQuery, setQuery } from '../frame/route.ts';
import { Button } from '../parts/button.tsx';
import { Card } from '../parts/card.tsx';
import { formatCount } from '../parts/format.ts';
import { ErrorNotice } from '../parts/notice.tsx';
import { quoteWord } from '../parts/quote-word.ts';
import { SameData } from '../parts/same-data.tsx';
import { signedIn } from '../sign-in/signed-in.ts';
import { Decision } from './decision.tsx';
import { findJsonProblem } from './find-json-problem.ts';
import { SessionPicker } from './session-picker.tsx';
import { ToolField } from './tool-field.tsx';

/** Arguments that are longer are not kept in the address. */
const maxAddressLength = 1000;
const typingMs = 300;

/** Arguments that are too long for the address, kept until the tab is left. */
const longArgs = signal('');

/** Nothing of one sign-in is shown to the next. */
effect(() => {
  if (signedIn.value === undefined) longArgs.value = '';
});

/** Asks whether a session may make a call, and shows the decision with everything that it is based on. */
export function CallTester() {
  const session = readQuery('session');
  const tool = readQuery('tool').trim();
  const args = readQuery('args') || longArgs.value;
  const problem = findJsonProblem(args);
  const canAsk = session !== '' && tool !== '' && problem === undefined;
  const body = { tool, ...(args.trim() === '' ? {} : { args }) };
  const decision = useRequest('POST /api/v1/sessions/{id}/explain', { id: session, body }, { when: canAsk });
  const failure = decision.error.value;
  const answer = decision.answer.value;
  return (
    <Card title="Test a call" aside="Nothing is called. The gateway only says how it would decide.">
      <div class="rules-tester">
        <div class="rules-form">
          <SessionPicker />
          <ToolField />
          <ArgumentsField args={args} problem={problem} />
        </div>
        <section class="rules-decision" aria-label="Decision" aria-live="polite">
          {!canAsk && <Missing session={session} tool={tool} hasProblem={problem !== undefined} />}
          {canAsk && failure !== undefined && <ErrorNotice error={failure} onRetry={() => void decision.reload()} />}
          {canAsk && answer === undefined && failure === undefined && <p class="muted">Asking the gateway…</p>}
          {canAsk && answer !== undefined && <Decision decision={answer} />}
          {canAsk && answer !== undefined && (
            <Button isBusy={decision.isLoading.value} onClick={() => void decision.reload()}>
              Test again
            </Button>
          )}
        </section>
      </div>
      {canAsk && (
        <SameData
          command={`ambit explain --session ${quoteWord(session)} --tool ${quoteWord(tool)}${args.trim() === '' ? '' : ` --args ${quoteWord(args)}`} --json`}
          path={pathOf('POST /api/v1/sessions/{id}/explain', { id: session })}
          body={JSON.stringify(body)}
        />
      )}
    </Card>
  );
}

function Missing({
  session,
  tool,
  hasProblem,
}: {
  readonly session: string;
  readonly tool: string;
  readonly hasProblem: boolean;
}) {
  const steps = [
    ...(session === '' ? ['choose a session'] : []),
    ...(tool === '' ? ['name a tool'] : []),
    ...(hasProblem ? ['correct the arguments'] : []),
  ];
  return <p class="muted">To see the decision, {steps.join(' and ')}.</p>;
}

/** The arguments as JSON. They are checked while somebody types. */
function ArgumentsField({ args, problem }: { readonly args: string; readonly problem: string | undefined }) {
  const field = useRef<HTMLTextAreaElement>(null);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => {
    if (field.current !== null && document.activeElement !== field.current) field.current.value = args;
  }, [args]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const keep = (text: string) => {
    const isLong = text.length > maxAddressLength;
    longArgs.value = isLong ? text : '';
    setQuery({ args: isLong ? '' : text });
  };
  return (
    <label class="field">
      <span>Arguments, as JSON (optional)</span>
      <textarea
        ref={field}
        class="mono"
        defaultValue={args}
        placeholder={'{"path": "README.md"}'}
        spellcheck={false}
        autocomplete="off"
        aria-invalid={problem !== undefined}
        aria-describedby="rules-arguments-hint"
        onInput={({ currentTarget }) => {
          clearTimeout(timer.current);
          timer.current = setTimeout(() => keep(currentTarget.value), typingMs);
        }}
      />
      <span id="rules-arguments-hint" class={problem === undefined ? 'field-hint' : 'rules-problem'} role="status">
        {problem ?? describeLength(args)}
      </span>
    </label>
  );
}

function describeLength(args: string): string {
  if (args.length <= maxAddressLength) return 'Rules may use them as args. They are kept in the address of this page.';
  return `These ${formatCount(args.length)} characters are too long for the address: they are lost when you reload the page.`;
}
