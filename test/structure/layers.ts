import { listImports, readSourceFiles } from './source-files.ts';

/** The layers of `src/`, in order. A file imports only from its own layer and from layers above it in this list. */
export const layers = [
  { name: 'lib', purpose: 'text, files, network, JSON, locks: nothing about MCP' },
  { name: 'protocol', purpose: 'the bytes of MCP messages' },
  { name: 'rules', purpose: 'trust levels, permissions, rules for tools' },
  { name: 'observability', purpose: 'journal, log, metrics, traces' },
  { name: 'stores', purpose: 'memory, SQLite, Redis behind one contract' },
  { name: 'identity', purpose: 'tokens, keys, users, principals' },
  { name: 'context', purpose: 'session context for tools, policies for models' },
  { name: 'config', purpose: 'schema, loading, explanations' },
  { name: 'sessions', purpose: 'the life of a session, its quotas and tools' },
  { name: 'sandbox', purpose: 'how processes are started, confined and ended' },
  { name: 'workspaces', purpose: 'files of sessions, and the tools for them' },
  { name: 'upstreams', purpose: 'MCP servers: links, catalog, access, pins, auth' },
  { name: 'gateway', purpose: 'the request pipeline, and how all parts open' },
  { name: 'entrances', purpose: 'HTTP, stdio, and the control API' },
  { name: 'cli', purpose: 'the commands' },
  { name: 'public', purpose: 'what users import: library, sdk, server, testing' },
] as const;

export const layerNames: readonly string[] = layers.map(({ name }) => name);
/** The files at the root of `src/`, which every layer may import, except `index.ts`, which belongs to `public`. */
export const rootFiles = '(root)';

export function findLayer(path: string): string {
  if (path === 'src/index.ts') return 'public';
  const parts = path.split('/');
  return parts.length === 2 ? rootFiles : (parts[1] as string);
}

/** Each import in `src/` that crosses layers. */
export function readLayerImports(): { from: string; to: string; path: string; target: string }[] {
  return readSourceFiles('src')
    .flatMap((file) => listImports(file).map((target) => ({ path: file.path, target })))
    .map(({ path, target }) => ({ from: findLayer(path), to: findLayer(target), path, target }))
    .filter(({ from, to }) => from !== to);
}
