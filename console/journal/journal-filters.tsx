import { useMemo } from 'preact/hooks';
import { useRequest } from '../api/use-request.ts';
import { readQuery, route, setQuery } from '../frame/route.ts';
import { Button } from '../parts/button.tsx';
import { ChoiceFilter, Filters, TextFilter } from '../parts/filters.tsx';
import { Notice } from '../parts/notice.tsx';
import { makeVisible } from '../parts/text.tsx';
import { capitalize, readText } from './entry-fields.ts';
import { hrefOfEarlier, kinds, linkedNames, ranges } from './journal-filter.ts';
import type { JournalLines } from './journal-lines.ts';

const commonOutcomes = ['error', 'refusal', 'ok', 'tool-error', 'server-error', 'refused', 'failed', 'undelivered'];
const maxSuggestions = 200;

/** All filters of the journal. Each one is a member of the address. */
export function JournalFilters({
  lines,
  sessionNames,
}: {
  readonly lines: JournalLines;
  readonly sessionNames: ReadonlyMap<string, string>;
}) {
  const seen = useSeenValues(lines);
  const servers = useRequest('GET /api/v1/servers').answer.value?.servers ?? [];
  const isFailedOnly = readQuery('outcome') === 'error';
  return (
    <>
      <Filters>
        <TextFilter name="words" label="Words" placeholder="Words to find" />
        <ChoiceFilter
          name="kind"
          label="Kind"
          options={[['', 'All kinds'], ...kinds.map((kind) => [kind, kind] as const)]}
        />
        <TextFilter
          name="session"
          label="Session"
          placeholder="Name or id"
          known={[...new Set(sessionNames.values())].filter(Boolean).slice(0, maxSuggestions)}
        />
        <TextFilter name="user" label="User" placeholder="Any" known={seen.users} />
        <TextFilter
          name="server"
          label="Server"
          placeholder="Any"
          known={[...new Set([...servers.map(({ name }) => name), ...seen.servers])].slice(0, maxSuggestions)}
        />
        <TextFilter name="tool" label="Tool" placeholder="server__tool" known={seen.tools} />
        {linkedNames.map(
          (name) => readQuery(name) !== '' && <TextFilter key={name} name={name} label={capitalize(name)} />,
        )}
        <TextFilter name="outcome" label="Outcome" placeholder="Any" known={seen.outcomes} />
        <TextFilter name="id" label="Call id" placeholder="Start of the id" />
        <RangeFilter />
        <Button isPressed={isFailedOnly} onClick={() => setQuery({ outcome: isFailedOnly ? '' : 'error' })}>
          Only what failed
        </Button>
      </Filters>
      <EarlierFilters />
    </>
  );
}

/** Says that the list is about one call, with the way back to the filters before. */
function EarlierFilters() {
  const { query } = route.value;
  const earlier = hrefOfEarlier(query);
  if (earlier === undefined) return null;
  const id = query.get('id');
  return (
    <Notice>
      <p>
        {id === undefined ? 'All lines around one moment. ' : `All lines of call ${makeVisible(id.slice(0, 36))}. `}
        <a href={earlier}>Back to the earlier filters</a>
      </p>
    </Notice>
  );
}

/** The time range: a preset that moves with the clock, or two fixed times. */
function RangeFilter() {
  const [since, until] = [readQuery('since'), readQuery('until')];
  const isCustom = since !== '' || until !== '';
  const choose = (name: string) => {
    if (name !== 'custom') {
      setQuery({ range: name, since: '', until: '' });
      return;
    }
    const hours = ranges.find(([each]) => each === readQuery('range'))?.[2] ?? 24;
    setQuery({ range: '', since: new Date(Date.now() - hours * 3_600_000).toISOString() });
  };
  const chosen = isCustom ? 'custom' : readQuery('range');
  return (
    <>
      <label class="filter filter-choice">
        <span>Time</span>
        <select value={chosen} onChange={({ currentTarget }) => choose(currentTarget.value)}>
          <option value="">Any time</option>
          {ranges.map(([name, label]) => (
            <option key={name} value={name}>
              {label}
            </option>
          ))}
          <option value="custom">From … to …</option>
        </select>
      </label>
      {isCustom && (
        <>
          <TimeFilter name="since" label="From" />
          <TimeFilter name="until" label="To" />
        </>
      )}
    </>
  );
}

function TimeFilter({ name, label }: { readonly name: string; readonly label: string }) {
  return (
    <label class="filter journal-time-filter">
      <span>{label}</span>
      <input
        type="datetime-local"
        step={1}
        value={toLocalText(readQuery(name))}
        onChange={({ currentTarget }) => {
          const time = Date.parse(currentTarget.value);
          setQuery({ [name]: Number.isNaN(time) ? '' : new Date(time).toISOString() });
        }}
      />
    </label>
  );
}

/** Writes a time as the field for times takes it: local and without a zone. */
function toLocalText(instant: string): string {
  const time = Date.parse(instant);
  if (Number.isNaN(time)) return '';
  return new Date(time - new Date(time).getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

/** Collects values of the lines that are shown, to offer them in the filters. */
function useSeenValues({ lines }: JournalLines) {
  const shown = lines.value;
  return useMemo(() => {
    const entries = shown.slice(0, 500).map(({ entry }) => entry);
    const collect = (...names: readonly string[]) => {
      const values = entries.flatMap((entry) => names.map((name) => readText(entry, name)));
      return [...new Set(values)].filter((value) => value !== '' && value.length < 100).slice(0, maxSuggestions);
    };
    const calls = entries.filter(({ kind, method }) => kind === 'file' || method === 'tools/call');
    const tools = calls.map((entry) => readText(entry, 'name') || readText(entry, 'tool'));
    return {
      users: collect('userId'),
      servers: collect('server'),
      tools: [...new Set(tools)].filter((value) => value !== '' && value.length < 100).slice(0, maxSuggestions),
      outcomes: [...new Set([...commonOutcomes, ...collect('outcome', 'code')])],
    };
  }, [shown]);
}
