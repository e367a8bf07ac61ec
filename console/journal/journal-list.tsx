import { hrefOf, route } from '../frame/route.ts';
import { Badge, type Tone } from '../parts/badge.tsx';
import { Button } from '../parts/button.tsx';
import { formatInstant, formatTime, plural } from '../parts/format.ts';
import { Empty, ErrorNotice, Notice } from '../parts/notice.tsx';
import { makeVisible, Swatch } from '../parts/text.tsx';
import { describeEntry } from './describe-entry.ts';
import { type JournalEntry, readText, readToolName } from './entry-fields.ts';
import { EntryFields } from './entry-view.tsx';
import { hasFilters } from './journal-filter.ts';
import type { JournalLines, Line } from './journal-lines.ts';
import { readResult } from './read-result.ts';

interface ListProps {
  readonly lines: JournalLines;
  readonly sessionNames: ReadonlyMap<string, string>;
}

const longList = 200;

/** The lines, newest first. */
export function JournalList({ lines, sessionNames }: ListProps) {
  const shown = lines.lines.value;
  const opened = lines.opened.value;
  const failure = lines.error.value;
  return (
    <>
      {failure !== undefined && <ErrorNotice error={failure} onRetry={() => void retry(lines)} />}
      {lines.damaged.value > 0 && (
        <Notice tone="warn">
          {plural(lines.damaged.value, 'damaged line')} of the journal could not be read and{' '}
          {lines.damaged.value === 1 ? 'was' : 'were'} skipped.
        </Notice>
      )}
      {shown.length > 0 && (
        <div class={shown.length > longList ? 'journal-list journal-long' : 'journal-list'}>
          <div class="journal-head" aria-hidden="true">
            <span>Time</span>
            <span>Kind</span>
            <span>What happened</span>
            <span>Session</span>
            <span>Server and tool</span>
            <span>Outcome</span>
          </div>
          <ol aria-label="Journal lines, newest first" onKeyDown={moveFocus}>
            {shown.map((line) => (
              <JournalLine
                key={line.number}
                line={line}
                isOpen={opened.has(line.number)}
                sessionName={sessionNames.get(readText(line.entry, 'sessionId')) ?? ''}
                onToggle={lines.toggle}
              />
            ))}
          </ol>
        </div>
      )}
      <Older lines={lines} />
    </>
  );
}

async function retry(lines: JournalLines): Promise<void> {
  if (lines.lines.peek().length > 0) await lines.loadNewer();
  await lines.loadOlder();
}

/** Moves the focus between lines with the arrow keys. */
function moveFocus(event: KeyboardEvent): void {
  const step =
    event.key === 'ArrowDown' ? 'nextElementSibling' : event.key === 'ArrowUp' ? 'previousElementSibling' : '';
  const target = event.target as HTMLElement;
  if (step === '' || !target.classList.contains('journal-line')) return;
  event.preventDefault();
  target.parentElement?.[step]?.querySelector<HTMLElement>('.journal-line')?.focus();
}

interface LineProps {
  readonly line: Line;
  readonly isOpen: boolean;
  readonly sessionName: string;
  readonly onToggle: (number: number) => void;
}

const kindTones: Readonly<Record<string, Tone>> = {
  call: 'accent',
  session: 'info',
  refusal: 'warn',
  gateway: 'plain',
};

function JournalLine({ line: { number, entry }, isOpen, sessionName, onToggle }: LineProps) {
  const result = readResult(entry);
  const id = `journal-fields-${number}`;
  return (
    <li class={result.isFailure ? 'journal-item journal-failed' : 'journal-item'}>
      <button
        type="button"
        class="journal-line"
        aria-expanded={isOpen}
        aria-controls={isOpen ? id : undefined}
        onClick={() => onToggle(number)}
      >
        <time class="journal-time" dateTime={formatInstant(entry.time)} title={formatInstant(entry.time)}>
          {formatTime(entry.time)}
        </time>
        <span class="journal-kind">
          <Badge tone={kindTones[entry.kind] ?? 'plain'}>{makeVisible(entry.kind.slice(0, 20))}</Badge>
        </span>
        <bdi class="journal-text">{makeVisible(describeEntry(entry))}</bdi>
        <SessionCell entry={entry} name={sessionName} />
        <bdi class="journal-server">{makeVisible(describeServer(entry))}</bdi>
        <span class="journal-outcome" title={makeVisible(result.text)}>
          {result.text !== '' && <Badge tone={result.tone}>{makeVisible(result.text.slice(0, 40))}</Badge>}
        </span>
      </button>
      {isOpen && <EntryFields id={id} entry={entry} sessionName={sessionName} />}
    </li>
  );
}

function SessionCell({ entry, name }: { readonly entry: JournalEntry; readonly name: string }) {
  const id = readText(entry, 'sessionId');
  if (id === '') return <span class="journal-session" />;
  return (
    <span class="journal-session" title={makeVisible(id)}>
      <Swatch of={id} />
      <bdi>{makeVisible(name === '' ? id.slice(0, 8) : name)}</bdi>
    </span>
  );
}

function describeServer(entry: JournalEntry): string {
  const server = readText(entry, 'server');
  const isTool = entry['method'] === 'tools/call' || entry.kind === 'file';
  const parts = [server === '*' ? 'all servers' : server, isTool ? readToolName(entry) : ''];
  return parts.filter(Boolean).join(' · ');
}

/** The end of the list: the search that is under way, the button for more, or that there is nothing more. */
function Older({ lines }: { readonly lines: JournalLines }) {
  const count = lines.lines.value.length;
  if (lines.isSearching.value) {
    const asked = lines.requests.value;
    const progress = asked === 0 ? '' : ` ${plural(asked, 'part')} of up to 16 MB searched so far.`;
    return (
      <div class="journal-older">
        <p role="status">
          <span class="spinner" aria-hidden="true" /> Searching older lines…{progress}
        </p>
        <Button onClick={lines.stop}>Stop</Button>
      </div>
    );
  }
  if (lines.error.value !== undefined) return null;
  if (lines.hasOlder.value) {
    return (
      <div class="journal-older">
        {lines.isStopped.value && <p role="status">The search was stopped before its end.</p>}
        <Button onClick={() => void lines.loadOlder()}>{lines.isStopped.value ? 'Continue' : 'Load older'}</Button>
      </div>
    );
  }
  if (count > 0) return <p class="journal-older muted">There are no older lines that match.</p>;
  return <NoLines />;
}

function NoLines() {
  if (!hasFilters(route.value.query)) {
    return (
      <Empty title="The journal is empty">
        <p>
          Lines appear here when a client calls a tool. Connect one with <code>ambit client</code>.
        </p>
      </Empty>
    );
  }
  return (
    <Empty title="No line matches these filters">
      <p>
        Remove a filter or choose a longer time. Lines are kept for 30 days unless the configuration says otherwise.
      </p>
      <p>
        <a href={hrefOf(['journal'])}>Show all lines</a>
      </p>
    </Empty>
  );
}
