import type { ComponentChildren } from 'preact';
import { pathOf } from '../../api/request.ts';
import { useRequest } from '../../api/use-request.ts';
import { hrefOf } from '../../frame/route.ts';
import { describeEntry, type JournalEntry } from '../../journal/describe-entry.ts';
import { Outcome } from '../../parts/badge.tsx';
import { Facts } from '../../parts/card.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { Diff } from '../../parts/diff.tsx';
import { formatBytes, formatDuration, formatInstant, formatMs, formatTime, now } from '../../parts/format.ts';
import { Answer } from '../../parts/notice.tsx';
import { quoteWord } from '../../parts/quote-word.ts';
import { SameData } from '../../parts/same-data.tsx';
import { describeLimit } from '../../parts/sandbox-limits.ts';
import { Id, Lines, makeVisible, Text } from '../../parts/text.tsx';
import { isAdmin } from '../../sign-in/signed-in.ts';
import type { TimelineItem } from './place-items.ts';

interface ItemDialogProps {
  readonly item: TimelineItem;
  readonly sessionId: string;
  readonly onClose: () => void;
}

const refreshMs = 5000;

type Row = readonly [name: string, value: ComponentChildren];

/** Everything that is known about one item of the timeline. */
export function ItemDialog({ item, sessionId, onClose }: ItemDialogProps) {
  const { entry, lane } = item;
  const callId = typeof entry['id'] === 'string' ? entry['id'] : undefined;
  const query = callId === undefined ? { session: sessionId } : { id: callId };
  const changedPath = findChangedPath(entry);
  return (
    <Dialog title={titles[lane]} onClose={onClose} isWide>
      <div class="dialog-body">
        <p>
          <Text value={item.label} max={1000} />
        </p>
        <Facts rows={entry.kind === 'call' ? describeCall(entry) : describeOther(entry)} />
        {changedPath !== undefined && <FileDiff entry={entry} path={changedPath} sessionId={sessionId} />}
        {lane === 'processes' && <ProcessLines item={item} sessionId={sessionId} />}
        <p class="session-line">
          <a href={hrefOf(['journal'], query)}>
            All journal lines {callId === undefined ? 'of the session' : 'of this call'}
          </a>
          {entry['method'] === 'tools/call' && (
            <a href={hrefOf(['rules'], { session: sessionId, tool: toolOf(entry) })}>Test the rules for this tool</a>
          )}
          {typeof entry['server'] === 'string' && entry['server'] !== '*' && entry['server'] !== 'ambit' && (
            <a href={hrefOf(['servers', entry['server']])}>Server</a>
          )}
          {lane === 'children' && typeof entry['sessionId'] === 'string' && (
            <a href={hrefOf(['sessions', entry['sessionId']])}>Child session</a>
          )}
          {typeof entry['toSessionId'] === 'string' && (
            <a href={hrefOf(['sessions', entry['toSessionId']])}>Recipient</a>
          )}
        </p>
        <SameData
          command={callId === undefined ? undefined : `ambit audit show ${quoteWord(callId)}`}
          path={`/api/v1/journal?${new URLSearchParams(query)}`}
        />
      </div>
    </Dialog>
  );
}

const titles: Readonly<Record<TimelineItem['lane'], string>> = {
  calls: 'Call',
  refusals: 'Refusal',
  processes: 'Process',
  files: 'File access',
  messages: 'Message',
  children: 'Child session',
  session: 'Event of the session',
};

function describeCall(entry: JournalEntry): Row[] {
  const number = (name: string) => (typeof entry[name] === 'number' ? entry[name] : undefined);
  const text = (name: string) => (typeof entry[name] === 'string' ? entry[name] : undefined);
  const [ms, upstreamMs, bytesIn, bytesOut] = ['ms', 'upstreamMs', 'bytesIn', 'bytesOut'].map(number);
  const rows: (Row | undefined)[] = [
    ['Started', <Moment at={Date.parse(entry.time) - (text('outcome') === undefined ? 0 : (ms ?? 0))} />],
    ['Outcome', text('outcome') === undefined ? 'under way' : <Outcome value={text('outcome') ?? ''} />],
    row('Rule', text('rule'), (rule) => <Rule id={rule} />),
    row('Claims', text('claims'), (claims) => <Claims json={claims} />),
    row('Server', text('server'), (server) => <Text value={server} />),
    row('Method', text('method'), (method) => <Text value={method} />),
    row('Name', text('name'), (name) => <Text value={name} max={1000} />),
    row('Arguments (SHA-256)', text('argsSha256'), (digest) => <code class="session-id">{digest}</code>),
    row('Duration', ms, formatMs),
    row('Time at the server', upstreamMs, (spent) =>
      ms === undefined ? formatMs(spent) : `${formatMs(spent)}; Ambit itself took ${formatMs(Math.max(0, ms - spent))}`,
    ),
    row('Size of the request', bytesIn, formatBytes),
    row('Size of the result', bytesOut, formatBytes),
    row('Answered from the cache of', text('cached'), (id) => <Id value={id} />),
    row('Client', text('era'), (era) => `${era} era, over ${text('entrance') ?? ''}`),
    row('Process', number('pid'), String),
    row('API key', text('keyId'), (key) => <Text value={key} />),
    row('Correlation id', text('id'), (id) => <code class="session-id">{id}</code>),
    row('Trace', text('traceId'), (trace) => <code class="session-id">{trace}</code>),
  ];
  return rows.filter((each) => each !== undefined);
}

function row<Value>(
  name: string,
  value: Value | undefined,
  show: (value: Value) => ComponentChildren,
): Row | undefined {
  return value === undefined ? undefined : [name, show(value)];
}

/** A time as the lists show it, with the date and the exact time as a title. */
function Moment({ at }: { readonly at: number | string }) {
  return (
    <time dateTime={formatInstant(at)} title={formatInstant(at)}>
      {formatTime(at)}
    </time>
  );
}

/** The rule that decided, with its condition as it is configured now. */
function Rule({ id }: { readonly id: string }) {
  const rules = useRequest('GET /api/v1/rules').answer.value?.rules;
  const when = rules?.find((rule) => rule.id === id)?.when;
  if (id === 'default') return <span>default: no rule denied the call</span>;
  return (
    <span>
      <a href={hrefOf(['rules'])}>
        <Text value={id} />
      </a>
      {when != null && (
        <>
          , which now applies if <code>{<Text value={when} max={1000} />}</code>
        </>
      )}
    </span>
  );
}

/** The claims that the rule has read, with their values at that time. */
function Claims({ json }: { readonly json: string }) {
  const claims = readClaims(json);
  return (
    <ul>
      {claims.map(([name, value]) => (
        <li key={name}>
          <code>{name}</code> = <Text value={value} />
        </li>
      ))}
    </ul>
  );
}

function readClaims(json: string): readonly (readonly [string, string])[] {
  try {
    return Object.entries(JSON.parse(json) as Record<string, unknown>).map(([name, value]) => [
      name,
      typeof value === 'string' ? value : JSON.stringify(value),
    ]);
  } catch {
    return [['claims', json]];
  }
}

/** The fields that the view shows elsewhere or in its own form. */
const hidden = new Set(['time', 'kind', 'sessionId', 'line', 'dropped']);
const fieldNames: Readonly<Record<string, string>> = {
  id: 'Correlation id of the call',
  event: 'Event',
  server: 'Server',
  runner: 'Runner',
  pid: 'Process id',
  ms: 'Time to start',
  tool: 'Tool',
  operation: 'Operation',
  asked: 'Path as given',
  resolved: 'Path in the workspace',
  decision: 'Decision',
  code: 'Error code',
  further: 'Further paths',
  workspaceId: 'Workspace',
  userId: 'User',
  agentId: 'Agent',
  name: 'Name',
  parentId: 'Parent session',
  toSessionId: 'Recipient',
  messageId: 'Message',
  bytes: 'Size',
  trustLevel: 'Trust level',
  ttlSeconds: 'Idle limit',
  by: 'Credential',
  method: 'Method',
  path: 'Address',
  status: 'Status',
  detail: 'Details',
};

function formatField(name: string, value: unknown): string {
  if (typeof value !== 'number') return typeof value === 'string' ? value : JSON.stringify(value);
  if (name === 'ms') return formatMs(value);
  if (name === 'bytes') return formatBytes(value);
  return name === 'ttlSeconds' ? formatDuration(value * 1000) : String(value);
}

function describeOther(entry: JournalEntry): Row[] {
  const rest = Object.entries(entry).filter(([name, value]) => !hidden.has(name) && value !== undefined);
  return [
    ['Time', <Moment at={entry.time} />],
    ...rest.map(
      ([name, value]): Row => [
        fieldNames[name] ?? makeVisible(name),
        <Text value={formatField(name, value)} max={2000} />,
      ],
    ),
  ];
}

function toolOf(entry: JournalEntry): string {
  const [server, name] = [String(entry['server'] ?? ''), String(entry['name'] ?? '')];
  return server === 'ambit' || name.includes('__') ? name : `${server}__${name}`;
}

/** The operations of the journal that change a file. */
const changes: ReadonlySet<unknown> = new Set(['write', 'remove', 'move', 'move-to']);

function findChangedPath({ kind, operation, decision, resolved, asked }: JournalEntry): string | undefined {
  if (kind !== 'file' || decision !== 'allowed' || !changes.has(operation)) return undefined;
  return String(resolved ?? asked ?? '');
}

interface FileDiffProps {
  readonly entry: JournalEntry;
  readonly path: string;
  readonly sessionId: string;
}

/** What the session has changed in a file so far. The journal holds no contents, so the folder of the session is read. */
function FileDiff({ entry, path, sessionId }: FileDiffProps) {
  const workspaceId = String(entry['workspaceId'] ?? '');
  const workspace = useRequest('GET /api/v1/workspaces/{id}', { id: workspaceId }, { when: isAdmin.value });
  if (!isAdmin.value) return <p class="muted">Only an admin sees the contents of files.</p>;
  return (
    <>
      <h3>Changes to this file that are not merged yet</h3>
      <Answer of={workspace}>
        {({ folders }) =>
          folders.some((folder) => folder.sessionId === sessionId) ? (
            <UnmergedDiff path={path} workspaceId={workspaceId} sessionId={sessionId} />
          ) : (
            <p class="muted">
              Unknown: the session has no folder of its own, and the journal holds no contents of files.
            </p>
          )
        }
      </Answer>
    </>
  );
}

function UnmergedDiff({
  path,
  workspaceId,
  sessionId,
}: Omit<FileDiffProps, 'entry'> & { readonly workspaceId: string }) {
  const which = { id: sessionId, query: { workspace: workspaceId, path } };
  const diff = useRequest('GET /api/v1/sessions/{id}/diff', which);
  return (
    <Answer of={diff}>
      {({ patch, files }) =>
        files.length === 0 ? (
          <p class="muted">None: the changes were merged or undone.</p>
        ) : (
          <>
            <Diff patch={patch} />
            <SameData
              command={`ambit session diff ${quoteWord(sessionId)} --workspace ${quoteWord(workspaceId)} --path ${quoteWord(path)} --json`}
              path={pathOf('GET /api/v1/sessions/{id}/diff', which)}
            />
          </>
        )
      }
    </Answer>
  );
}

function ProcessLines({ item, sessionId }: Pick<ItemDialogProps, 'item' | 'sessionId'>) {
  const { related, from, until, entry: start } = item;
  const stderr = related.filter(({ event }) => event === 'stderr').map((entry) => String(entry['line'] ?? ''));
  const others = related.filter(({ event }) => event !== 'stderr' && event !== 'started');
  return (
    <>
      <p class="muted">
        {until === undefined
          ? `Running for ${formatDuration(now.value - from)}.`
          : `Ran for ${formatDuration(until - from)}.`}
      </p>
      {until === undefined && <RunningProcess sessionId={sessionId} server={start['server']} pid={start['pid']} />}
      {others.map((entry) => (
        <p key={entry.time}>
          <Moment at={entry.time} />: <Text value={describeEntry(entry)} max={1000} />
        </p>
      ))}
      <h3>Last lines on stderr</h3>
      {stderr.length === 0 ? <p class="muted">None.</p> : <Lines value={stderr.slice(-100).join('\n')} />}
    </>
  );
}

interface RunningProcessProps {
  readonly sessionId: string;
  readonly server: unknown;
  readonly pid: unknown;
}

/** The memory of a running process, and its limits with what enforces each. */
function RunningProcess({ sessionId, server, pid }: RunningProcessProps) {
  const all = useRequest('GET /api/v1/processes', { query: { session: sessionId } }, { everyMs: refreshMs });
  const found = all.answer.value?.processes.find((process) => process.server === server && process.pid === pid);
  if (found === undefined) return null;
  const { memoryBytes, limits } = found;
  return (
    <Facts
      rows={[
        ['Memory now', memoryBytes === null ? 'unknown' : formatBytes(memoryBytes)],
        ['Limits', limits.length === 0 ? 'none' : limits.map(describeLimit).join(', ')],
      ]}
    />
  );
}
