import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { request } from '../api/request.ts';
import { readQuery, setQuery } from '../frame/route.ts';
import { KnownValues } from '../parts/fields.tsx';

const typingMs = 300;
const maxServers = 30;
const maxNames = 1000;

/** The name of the tool, with the names that are known as suggestions. */
export function ToolField() {
  const value = readQuery('tool');
  const names = useKnownTools();
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
      <span class="field-hint">Ambit’s own tools have no prefix, such as session_read_file.</span>
    </label>
  );
}

/** Collects names of tools: those that servers have, and those that were called lately. */
function useKnownTools(): readonly string[] {
  const names = useSignal<readonly string[]>([]);
  useEffect(() => {
    const controller = new AbortController();
    const { signal } = controller;
    const add = (more: readonly string[]) => {
      names.value = [...new Set([...names.peek(), ...more])].sort().slice(0, maxNames);
    };
    // Without suggestions the field works as well.
    readCalledTools(signal).then(add, () => {});
    readServerTools(signal, add).catch(() => {});
    return () => controller.abort();
  }, []);
  return names.value;
}

async function readCalledTools(signal: AbortSignal): Promise<readonly string[]> {
  const query = { kind: 'call', words: 'tools/call', limit: 200 } as const;
  const { entries } = await request('GET /api/v1/journal', { query, signal });
  return entries.flatMap(({ server, name }) => {
    if (typeof server !== 'string' || typeof name !== 'string' || server === '*') return [];
    return [server === 'ambit' || name.startsWith(`${server}__`) ? name : `${server}__${name}`];
  });
}

async function readServerTools(signal: AbortSignal, add: (names: readonly string[]) => void): Promise<void> {
  const { servers } = await request('GET /api/v1/servers', { signal });
  add(servers.map(({ name }) => `${name}__`));
  for (const { name } of servers.slice(0, maxServers)) {
    const { tools } = await request('GET /api/v1/servers/{id}', { id: name, signal });
    add((tools ?? []).map((tool) => `${name}__${tool.name}`));
  }
}
