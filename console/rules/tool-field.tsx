import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { request } from '../api/request.ts';
import { readQuery, setQuery } from '../frame/route.ts';
import { KnownValues } from '../parts/fields.tsx';
import { Text } from '../parts/text.tsx';

const typingMs = 300;
const maxServers = 30;
const maxNames = 1000;

/** The name of the tool, with the names that are known as suggestions. */
export function ToolField() {
  const value = readQuery('tool');
  const { names, offers } = useKnownTools();
  const field = useRef<HTMLInputElement>(null);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => {
    if (field.current !== null && document.activeElement !== field.current) field.current.value = value;
  }, [value]);
  useEffect(() => () => clearTimeout(timer.current), []);
  return (
    <label class="field">
      <span>Tool</span>
      <input
        ref={field}
        class="mono"
        list="rules-tools"
        defaultValue={value}
        placeholder="server__tool"
        autocomplete="off"
        autocapitalize="off"
        spellcheck={false}
        onInput={({ currentTarget }) => {
          clearTimeout(timer.current);
          timer.current = setTimeout(() => setQuery({ tool: currentTarget.value }), typingMs);
        }}
      />
      <KnownValues id="rules-tools" values={names} />
      <span class="field-hint" role="status">
        <Hint tool={value.trim()} offers={offers} />
      </span>
    </label>
  );
}

function Hint({ tool, offers }: { readonly tool: string; readonly offers: Offers }) {
  const [server = ''] = tool.split('__', 1);
  if (offers.get(server)?.has(tool) !== false) return 'Ambit’s own tools have no prefix, such as session_read_file.';
  return (
    <>
      Check the name: <Text value={server} /> does not offer a tool of this name. The rules decide by the name alone.
    </>
  );
}

/** The tools of each server that has told which it has. */
type Offers = ReadonlyMap<string, ReadonlySet<string>>;

interface KnownTools {
  readonly names: readonly string[];
  readonly offers: Offers;
}

/** Collects names of tools: those that servers have, and those that were called lately. */
function useKnownTools(): KnownTools {
  const names = useSignal<readonly string[]>([]);
  const offers = useSignal<Offers>(new Map());
  useEffect(() => {
    const controller = new AbortController();
    const { signal } = controller;
    const add = (more: readonly string[]) => {
      names.value = [...new Set([...names.peek(), ...more])].sort().slice(0, maxNames);
    };
    // Without suggestions the field works as well.
    readCalledTools(signal).then(add, () => {});
    const addOffer = (server: string, tools: readonly string[]) => {
      add(tools);
      offers.value = new Map([...offers.peek(), [server, new Set(tools)]]);
    };
    readServerTools(signal, add, addOffer).catch(() => {});
    return () => controller.abort();
  }, []);
  return { names: names.value, offers: offers.value };
}

async function readCalledTools(signal: AbortSignal): Promise<readonly string[]> {
  const query = { kind: 'call', words: 'tools/call', limit: 200 } as const;
  const { entries } = await request('GET /api/v1/journal', { query, signal });
  return entries.flatMap(({ server, name }) => {
    if (typeof server !== 'string' || typeof name !== 'string' || server === '*') return [];
    return [server === 'ambit' || name.startsWith(`${server}__`) ? name : `${server}__${name}`];
  });
}

async function readServerTools(
  signal: AbortSignal,
  add: (names: readonly string[]) => void,
  addOffer: (server: string, tools: readonly string[]) => void,
): Promise<void> {
  const { servers } = await request('GET /api/v1/servers', { signal });
  add(servers.map(({ name }) => `${name}__`));
  for (const { name } of servers.slice(0, maxServers)) {
    const { tools } = await request('GET /api/v1/servers/{id}', { id: name, signal });
    if (tools !== undefined)
      addOffer(
        name,
        tools.map((tool) => `${name}__${tool.name}`),
      );
  }
}
