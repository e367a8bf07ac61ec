import { describe, expect, test } from 'vitest';
import { importsOf, sourceFiles } from './source-files.ts';

/** Which rooms a room may enter. A room further out may use those further in, never the other way. */
const doors: Readonly<Record<string, readonly string[]>> = {
  '(hall)': [],
  text: [],
  trust: ['text'],
  sdk: ['trust'],
  context: ['(hall)', 'trust'],
  logging: ['(hall)'],
  metrics: [],
  journal: ['(hall)', 'logging'],
  wire: ['(hall)', 'text'],
  identity: ['(hall)', 'trust'],
  approvals: ['(hall)'],
  saferoot: ['(hall)'],
  runners: ['(hall)', 'wire'],
  stores: ['(hall)', 'trust'],
  cache: ['(hall)', 'context', 'trust', 'wire'],
  credentials: ['(hall)', 'context', 'stores'],
  logins: ['(hall)', 'credentials', 'stores'],
  config: ['(hall)', 'context', 'text', 'trust'],
  directory: ['(hall)', 'config', 'identity', 'stores', 'trust'],
  telemetry: ['(hall)', 'config', 'logging', 'wire'],
  governance: ['(hall)', 'context', 'identity', 'stores', 'wire'],
  sessions: ['(hall)', 'config', 'identity', 'stores', 'trust'],
  events: ['(hall)', 'config', 'sessions', 'stores'],
  workspaces: ['(hall)', 'config', 'runners', 'saferoot', 'sessions', 'stores', 'text'],
  tools: ['(hall)', 'identity', 'sessions', 'stores', 'text', 'wire', 'workspaces'],
  import: ['(hall)', 'config'],
  upstreams: ['(hall)', 'config', 'context', 'identity', 'journal', 'logging', 'runners', 'sessions', 'trust', 'wire'],
  gateway: [
    '(hall)',
    'approvals',
    'cache',
    'config',
    'context',
    'credentials',
    'directory',
    'events',
    'governance',
    'identity',
    'journal',
    'logging',
    'logins',
    'metrics',
    'runners',
    'sessions',
    'stores',
    'telemetry',
    'tools',
    'trust',
    'upstreams',
    'wire',
    'workspaces',
  ],
  doctor: ['(hall)', 'runners', 'saferoot', 'stores'],
  admin: ['(hall)', 'gateway', 'identity', 'sessions', 'stores', 'trust'],
  entrances: ['(hall)', 'admin', 'config', 'events', 'gateway', 'identity', 'metrics', 'wire'],
  library: ['(hall)', 'config', 'context', 'entrances', 'gateway', 'logging', 'sessions', 'wire'],
  server: ['(hall)', 'governance', 'identity', 'sdk', 'sessions', 'stores', 'tools', 'trust', 'wire'],
  testing: ['(hall)', 'config', 'library', 'stores'],
  cli: [
    '(hall)',
    'admin',
    'approvals',
    'config',
    'credentials',
    'doctor',
    'entrances',
    'gateway',
    'import',
    'journal',
    'logging',
    'sessions',
    'stores',
    'trust',
    'upstreams',
  ],
};

/** Files that lie in `src/` itself belong to the hall, which everyone passes through; the front door to the library. */
function roomOf(path: string): string {
  if (path === 'src/index.ts') return 'library';
  const parts = path.split('/');
  return parts.length === 2 ? '(hall)' : (parts[1] as string);
}

const files = sourceFiles('src');

describe('doors between rooms', () => {
  test('every room is on the plan', () => {
    const rooms = new Set(files.map((file) => roomOf(file.path)));
    expect([...rooms].sort()).toEqual(Object.keys(doors).sort());
  });

  test.each(Object.entries(doors))('%s opens only the doors it has', (room, open) => {
    const wrong = files
      .filter((file) => roomOf(file.path) === room)
      .flatMap((file) => importsOf(file).map((target) => ({ from: file.path, target })))
      .filter(({ target }) => roomOf(target) !== room && !open.includes(roomOf(target)));
    expect(wrong).toEqual([]);
  });

  test('the sdk takes only types from other rooms', () => {
    const lines = files
      .filter((file) => roomOf(file.path) === 'sdk')
      .flatMap((file) => [...file.text.matchAll(/^(?:import|export) .* from '\.\.\/.*$/gm)].map(([line]) => line));
    expect(lines.filter((line) => !/^(?:import|export) type /.test(line))).toEqual([]);
  });

  test('no door leads in a circle', () => {
    const visiting = new Set<string>();
    const walk = (room: string): void => {
      if (visiting.has(room)) throw new Error(`circle through ${[...visiting, room].join(' → ')}`);
      visiting.add(room);
      for (const next of doors[room] ?? []) walk(next);
      visiting.delete(room);
    };
    for (const room of Object.keys(doors)) walk(room);
  });
});
