import type { ComponentChildren } from 'preact';
import { hrefOf, route } from '../frame/route.ts';
import { Facts } from '../parts/card.tsx';
import { formatInstant } from '../parts/format.ts';
import { CopyButton } from '../parts/same-data.tsx';
import { Ago, Lines, makeVisible, Text } from '../parts/text.tsx';
import { type JournalEntry, readText } from './entry-fields.ts';
import { hrefOfCall, hrefOfMoment, hrefWith, type Query } from './journal-filter.ts';

/** The filter that a field of a line belongs to. */
const filterOfField: Readonly<Record<string, string>> = {
  kind: 'kind',
  sessionId: 'session',
  parentId: 'session',
  toSessionId: 'session',
  userId: 'user',
  server: 'server',
  tool: 'tool',
  outcome: 'outcome',
  decision: 'outcome',
  code: 'outcome',
};
/** Fields without a filter of their own, whose values are found as words. */
const wordFields: ReadonlySet<string> = new Set([
  ...['event', 'method', 'keyId', 'rule', 'workspaceId', 'traceId', 'address', 'by', 'path', 'agentId', 'runner'],
]);
const maxFilterLength = 200;

/** All fields of a line. A value that can be a filter is a link to the lines that have it too. */
export function EntryFields({
  id,
  entry,
  sessionName,
}: {
  readonly id: string;
  readonly entry: JournalEntry;
  readonly sessionName: string;
}) {
  const { query } = route.value;
  const rows = Object.entries(entry).map(
    ([name, value]) =>
      [makeVisible(name.slice(0, 60)), <FieldValue query={query} entry={entry} name={name} value={value} />] as const,
  );
  return (
    <div id={id} class="journal-fields">
      <Facts rows={rows} />
      <EntryLinks query={query} entry={entry} sessionName={sessionName} />
    </div>
  );
}

interface FieldProps {
  readonly query: Query;
  readonly entry: JournalEntry;
  readonly name: string;
  readonly value: unknown;
}

function FieldValue({ query, entry, name, value }: FieldProps): ComponentChildren {
  if (name === 'time') {
    return (
      <>
        {formatInstant(entry.time)} (<Ago at={entry.time} />)
      </>
    );
  }
  if (typeof value === 'object' && value !== null) return <Lines value={JSON.stringify(value, null, 2)} />;
  const text = String(value);
  if (text.includes('\n')) return <Lines value={text} />;
  const href = hrefOfValue(query, entry, name, text);
  if (href === undefined) return <Text value={text} />;
  return (
    <a href={href} title="Show only lines with this value" aria-label={`Only lines with ${name} ${makeVisible(text)}`}>
      <Text value={text} />
    </a>
  );
}

/** Writes the address of the lines with the same value; undefined if the journal cannot be searched for it. */
function hrefOfValue(query: Query, entry: JournalEntry, name: string, value: string): string | undefined {
  if (value === '' || value.length > maxFilterLength) return undefined;
  if (name === 'id' || name === 'cached') return hrefOfCall(query, value);
  if (name === 'name') return entry['method'] === 'tools/call' ? hrefWith(query, 'tool', value) : undefined;
  const filter = filterOfField[name];
  if (filter !== undefined) return hrefWith(query, filter, value);
  if (!wordFields.has(name) || /\s/.test(value)) return undefined;
  const words = (query.get('words') ?? '').split(/\s+/).filter(Boolean);
  return hrefWith(query, 'words', [...new Set([...words, value])].join(' '));
}

function EntryLinks({
  query,
  entry,
  sessionName,
}: {
  readonly query: Query;
  readonly entry: JournalEntry;
  readonly sessionName: string;
}) {
  const session = readText(entry, 'sessionId');
  const server = readText(entry, 'server');
  const call = readText(entry, 'id');
  const hasServer = server !== '' && server !== '*' && server !== 'ambit';
  return (
    <div class="journal-links">
      {call !== '' && <a href={hrefOfCall(query, call)}>All lines of this call</a>}
      {session !== '' && (
        <a href={hrefOf(['sessions', session])}>Open session {makeVisible(sessionName || session.slice(0, 8))}</a>
      )}
      {hasServer && <a href={hrefOf(['servers', server])}>Open server {makeVisible(server)}</a>}
      <a href={hrefOfMoment(query, entry.time)}>What happened around it</a>
      <CopyButton text={JSON.stringify(entry)} label="Copy as JSON" />
    </div>
  );
}
