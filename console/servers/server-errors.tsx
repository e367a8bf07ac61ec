import { useSignal } from '@preact/signals';
import { useRequest } from '../api/use-request.ts';
import { hrefOf } from '../frame/route.ts';
import { describeEntry } from '../journal/describe-entry.ts';
import { type JournalEntry, readNumber } from '../journal/entry-fields.ts';
import { writeCommand, writePath } from '../journal/journal-filter.ts';
import { Card } from '../parts/card.tsx';
import { Answer } from '../parts/notice.tsx';
import { SameData } from '../parts/same-data.tsx';
import { Ago, Lines, Text } from '../parts/text.tsx';
import { liveSessions } from '../sessions/live-sessions.ts';
import { SessionName } from '../sessions/session-columns.tsx';

const maxErrors = 10;
const searched = { starts: '20', ends: '200', stderr: '200' } as const;
const maxStderrLines = 20;
/** The last lines of a process may be recorded a little after its end. */
const slackMs = 5000;
/** The exit codes of a process that Ambit, or a person at a terminal, has asked to end. */
const askedToEnd: readonly unknown[] = [0, 130, 143, undefined];

/** True for the end of a process that went wrong, or that has an explanation. */
function isErrorEnd({ code, signal, detail }: JournalEntry): boolean {
  return detail !== undefined || !askedToEnd.includes(code) || (signal !== undefined && signal !== 'SIGTERM');
}

/** The last starts that failed and processes that ended with an error. `after` changes with each new error. */
export function ServerErrors({ name, after }: { readonly name: string; readonly after: string | undefined }) {
  const find = (event: string, limit: string) => ({ query: { kind: 'process' as const, server: name, event, limit } });
  const starts = useRequest('GET /api/v1/journal', find('start-failed', searched.starts), { after });
  const ends = useRequest('GET /api/v1/journal', find('ended', searched.ends), { after });
  const ended = new Map(Object.entries({ server: name, kind: 'process', event: 'ended' }));
  return (
    <Card title="Last errors" aside={`of its processes, up to ${maxErrors}`}>
      <Answer of={starts}>
        {(failed) => (
          <Answer of={ends}>
            {({ entries }) => <ErrorList entries={[...failed.entries, ...entries.filter(isErrorEnd)]} />}
          </Answer>
        )}
      </Answer>
      <p>
        <a href={hrefOf(['journal'], { server: name, kind: 'process' })}>All lines about its processes</a>
      </p>
      <SameData what="these errors" command={writeCommand(ended, false)} path={writePath(ended, 0)} />
    </Card>
  );
}

function ErrorList({ entries }: { readonly entries: readonly JournalEntry[] }) {
  const newest = entries.toSorted((a, b) => Date.parse(b.time) - Date.parse(a.time)).slice(0, maxErrors);
  if (newest.length === 0) return <p class="muted">The recent lines of the journal contain no error of a process.</p>;
  return (
    <ol class="server-errors">
      {newest.map((entry, at) => (
        <ServerError key={JSON.stringify(entry)} entry={entry} isFirst={at === 0} />
      ))}
    </ol>
  );
}

function ServerError({ entry, isFirst }: { readonly entry: JournalEntry; readonly isFirst: boolean }) {
  const isOpen = useSignal(isFirst);
  const sessionId = typeof entry['sessionId'] === 'string' ? entry['sessionId'] : undefined;
  const pid = readNumber(entry, 'pid');
  const live = liveSessions.value?.find(({ id }) => id === sessionId);
  return (
    <li>
      <p>
        <Ago at={entry.time} />{' '}
        {sessionId === undefined ? (
          <span class="muted">no single session</span>
        ) : (
          <SessionName session={live ?? { id: sessionId, name: null, task: null }} />
        )}
      </p>
      <Text value={describeEntry(entry)} />
      {pid !== undefined && (
        <details
          open={isOpen.value}
          onToggle={(event) => {
            isOpen.value = event.currentTarget.open;
          }}
        >
          <summary>Stderr of process {pid}</summary>
          {isOpen.value && <ProcessStderr entry={entry} pid={pid} sessionId={sessionId} />}
        </details>
      )}
    </li>
  );
}

interface ProcessStderrProps {
  readonly entry: JournalEntry;
  readonly pid: number;
  readonly sessionId: string | undefined;
}

function ProcessStderr({ entry, pid, sessionId }: ProcessStderrProps) {
  const until = new Date(Date.parse(entry.time) + slackMs).toISOString();
  const server = String(entry['server']);
  const query = {
    kind: 'process' as const,
    server,
    event: 'stderr',
    until,
    session: sessionId,
    limit: searched.stderr,
  };
  const found = useRequest('GET /api/v1/journal', { query });
  return (
    <Answer of={found}>
      {({ entries }) => {
        const lines = entries.filter((each) => each['pid'] === pid && each['sessionId'] === sessionId);
        return lines.length === 0 ? (
          <p class="muted">The journal has no line of its stderr, or has them much earlier.</p>
        ) : (
          <Lines
            value={lines
              .slice(0, maxStderrLines)
              .reverse()
              .map((each) => String(each['line']))
              .join('\n')}
          />
        );
      }}
    </Answer>
  );
}
